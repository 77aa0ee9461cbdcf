"""The type checker of the test run: beartype, where a plain int may stand for a float, as in PEP 484."""

from beartype import BeartypeConf, beartype

checked = beartype(conf=BeartypeConf(is_pep484_tower=True))
