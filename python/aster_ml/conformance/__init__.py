"""Conformance: the same cases on any two engines (see __main__)."""
