"""Conformance: does a device compute what ``docs/numerics.md`` says, bit for bit?

- ``conformance.reference``: the slow evaluation of every op that devices are judged by;
- ``conformance.cases``: deterministic cases for each op, dtype and class of shapes;
- ``conformance.compare``: equality of bits, and messages that say where it fails;
- ``conformance.golden``: hashes of every op's results.
"""

from pkgutil import extend_path

__path__ = extend_path(__path__, __name__)
