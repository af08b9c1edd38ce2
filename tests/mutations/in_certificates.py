"""Planted bugs in certificates: what is accepted by mistake lets one program pose as another."""

from typing import Final

from tests.mutations.mutation import Mutation

PACKAGE: Final = "crdtstream/certificates/"
CERTIFICATE: Final = "tests/certificates/test_certificate.py::"
CHAINS: Final = "tests/certificates/test_chains.py::"


CERTIFICATES: Final = (
    Mutation(
        "certificate-issued-by-a-namesake",
        PACKAGE + "certificate.py",
        "        except (*_WRONG, InvalidSignature):\n            return False\n",
        "        except _WRONG:\n            return False\n"
        "        except InvalidSignature:\n            return True\n",
        (
            CERTIFICATE + "test_it_was_issued_by_the_one_that_signed_it",
            CHAINS + "test_another_authority_is_refused_though_it_has_the_same_name",
        ),
        "a certificate of an authority with the same name passes, and peers refuse it",
    ),
    Mutation(
        "certificate-chain-with-expired-authorities",
        PACKAGE + "chain.py",
        "        yield from findings_of_validity(one, now, is_leaf=place == 0)\n",
        "        if place == 0:\n"
        "            yield from findings_of_validity(one, now, is_leaf=place == 0)\n",
        (
            CHAINS + "test_a_chain_that_tls_refuses_has_a_finding[root-expired]",
            CHAINS + "test_the_end_is_that_of_the_first_certificate_that_expires",
        ),
        "a pair whose authority has expired replaces one that still works",
    ),
)
