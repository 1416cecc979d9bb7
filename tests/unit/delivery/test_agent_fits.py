"""The single file has to fit into a ConfigMap, which carries it into the debug copy of a workload (docs/adr/0020)."""

from __future__ import annotations

from dkdbg.delivery import single_file

#: Bytes of all values of a ConfigMap, as the API server checks them (MaxSecretSize).
_MOST = 1 << 20


def test_the_single_file_fits_into_a_configmap():
    assert len(single_file.build((3, 11))) < _MOST
