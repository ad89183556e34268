"""Measurements of tocsin on real servers; README.md says what each one measures. Nothing here runs with the tests."""
