"""Write the UID of a volume claim to a file, for a node's `volume_id`.

Usage: claim_uid.py NAMESPACE CLAIM FILE

A clone of a volume, such as a restored snapshot, belongs to another claim.  It runs in a pod, with
a token of a service account that may get this claim.
"""

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path(os.environ.get("ACCOUNT_FOLDER", "/var/run/secrets/kubernetes.io/serviceaccount"))
SECONDS_MAX = 30.0


def main(namespace: str, claim: str, file: str) -> None:
    host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
    # An address of IPv6 stands in brackets.
    host = f"[{host}]" if ":" in host else host
    url = f"https://{host}:{port}/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}"
    token = (ACCOUNT / "token").read_text().strip()
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    context = ssl.create_default_context(cafile=str(ACCOUNT / "ca.crt"))
    try:
        with urllib.request.urlopen(request, timeout=SECONDS_MAX, context=context) as answer:
            uid = json.load(answer)["metadata"]["uid"]
    except urllib.error.HTTPError as error:
        sys.exit(
            f"the API server refuses {claim}: {error.code} {error.reason}; let the service account"
            " get this claim, or set storage.claimUid to false"
        )
    except OSError as error:
        sys.exit(f"the API server does not answer: {error}")
    Path(file).write_text(uid)
    print(f"{claim} has the UID {uid}")


if __name__ == "__main__":
    main(*sys.argv[1:])
