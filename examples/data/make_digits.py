#!/usr/bin/env python3
"""Writes digits.bin, the handwritten digits that scikit-learn carries, beside this script.

  make_digits.py [FILE]    needs scikit-learn (1.9.1 was used; the data has not changed for years)
"""

import os
import sys

from sklearn.datasets import load_digits


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    digits = load_digits()
    records = bytearray()
    for image, label in zip(digits.images, digits.target):
        records += bytes(int(value) for value in image.flatten()) + bytes([int(label)])
    with open(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "digits.bin"), "wb") as file:
        file.write(records)


if __name__ == "__main__":
    main()
