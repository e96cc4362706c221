"""Reads requests to a push service from the standard input, decrypts them with PyPI `http-ece`, checks
their header with PyPI `py-vapid`, and writes the list of texts."""

import base64
import json
import sys

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec
from py_vapid import Vapid02


def decode(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def run(task):
    number = int.from_bytes(decode(task["privateKey"]), "big")
    text = http_ece.decrypt(
        decode(task["body"]),
        private_key=ec.derive_private_key(number, ec.SECP256R1()),
        auth_secret=decode(task["auth"]),
        version="aes128gcm",
    )
    if not Vapid02.verify(task["authorization"]):
        return "the signature is wrong"
    return text.decode()


print(json.dumps([run(task) for task in json.load(sys.stdin)]))
