"""Validates with PyPI `jsonschema`: reads a list of tasks from the standard input, each a schema and
an instance, and writes for each the list of errors. The schema itself is checked too."""

import json
import sys

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError


def run(task):
    schema = task["schema"]
    try:
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        return [f"no schema: {error.message}"]
    checker = Draft202012Validator.FORMAT_CHECKER
    # Without this package, every text would be a date-time.
    assert "date-time" in checker.checkers
    validator = Draft202012Validator(schema, format_checker=checker)
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(task["instance"])]


print(json.dumps([run(task) for task in json.load(sys.stdin)]))
