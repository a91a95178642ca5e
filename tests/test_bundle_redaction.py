"""What must not leave the house is not in the bag, in any of its files; what a return needs is."""

from __future__ import annotations

import base64
import csv
import io
import json
import zipfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from joblogs import HOSTS, kernel, write
from returns import HOST, SERIAL, UUID, complete

from correlator.bundle.placeholders import Placeholders, read_map
from correlator.bundle.redaction import Redactor, kinds_at, load_rules
from correlator.cli import main
from correlator.errors import UsageError

RULES = load_rules().rules


@pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES])
def test_a_rule_masks_its_samples_and_leaves_its_look_alikes(rule) -> None:  # type: ignore[no-untyped-def]
    for line in rule.hits:
        redactor = Redactor(Placeholders(), [rule.kind])
        assert redactor.text(line) != line
        assert redactor.leak(redactor.text(line)) is None
    for line in rule.misses:
        found = [r for r in RULES if r is rule]
        assert not any(_hit(r, line) for r in found), line


def _hit(rule, line: str) -> bool:  # type: ignore[no-untyped-def]
    redactor = Redactor(Placeholders(), [rule.kind])
    redactor._rules = [rule]
    redactor._detectors = ()
    return redactor.text(line) != line


LETTERS = "abcdefghijklmnopqrstuvwxyz"
#: Invented secrets and the lines in which such a thing gets into a log: (what must be gone, the line).
PLANTED = [
    (secret, line.replace("@@", secret))
    for secret, line in [
        ("hf_AbCdEfGhIjKlMnOpQrStUvWxYzabcdefgh", "HF_TOKEN=@@"),
        ("hf_ZyXwVuTsRqPoNmLkJiHgFeDcBaabcdefgh", "huggingface-cli login --token @@"),
        ("0123456789abcdef0123456789abcdef01234567", "export WANDB_API_KEY=@@"),
        ("fedcba9876543210fedcba9876543210fedcba98", "wandb: Appending key for api.wandb.ai to your netrc file: @@"),
        ("wandb_v1_AbCdEfGhIjKlMnOpQrStUv_0123456789", "wandb login @@"),
        ("sk-proj-abcdefghijklmnopqrstuvwx0123456789", "OPENAI_API_KEY=@@"),
        ("sk-ant-api03-abcdefghijklmnopqrstuvwx012345", "anthropic key @@ rejected"),
        ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "git clone https://@@@github.com/example/train.git"),
        ("github_pat_11ABCDEFG0abcdefghijkl_mnopqrstuv", "remote: token @@ expired"),
        ("glpat-abcdefghij0123456789", "pip install --index-url https://ci:@@@gitlab.example.com/simple x"),
        ("AKIAABCDEFGHIJKLMNOP", "AWS_ACCESS_KEY_ID=@@"),
        ("abcdefghijklmnopqrstuvwxyz0123456789ABCD", "AWS_SECRET_ACCESS_KEY=@@"),
        ("ASIAABCDEFGHIJKLMNOQ", "botocore: credential @@ is expired"),
        ("IQoJb3JpZ2luX2VjEJr0123456789abcdefABCDEF", "aws_session_token = @@"),
        ("AIzaSyabcdefghijklmnopqrstuvwxyz0123456", "GOOGLE_API_KEY=@@"),
        ("ya29.abcdefghijklmnopqrstuvwxyz012345", "gcloud: Bearer @@"),
        ("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH==", "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;"),
        ("abcdefghijk%2Flmnop012345678%3D", "GET https://x.blob.core.windows.net/c/f?sv=2024-05-04&sig=@@"),
        ("xoxb-123456789012-123456789012-abcdefghijkl", "SLACK_BOT_TOKEN=@@"),
        ("T00000000/B00000000/abcdefghijklmnopqrstuvwx", "post to https://hooks.slack.com/services/@@"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTYifQ.c2lnbmF0dXJlMTIz", "SLURM_JWT=@@"),
        ("eyJhcGlfYWRkcmVzcyI6Imh0dHBzOi8vYXBwLmV4YW1wbGUifQ12", "NEPTUNE_API_TOKEN=@@"),
        ("Ab1Cd2Ef3Gh4Ij5Kl6Mn7Op8Q", "COMET_API_KEY: @@"),
        ("ZX12CV34BN56MA78SD90FG12", "CLEARML_API_ACCESS_KEY=@@"),
        ("zx12cv34bn56ma78sd90fg12hj34kl56", "CLEARML_API_SECRET_KEY=@@"),
        ("npm_abcdefghijklmnopqrstuvwxyz0123456789", "//registry.example.com/:_authToken=@@"),
        ("dckr_pat_abcdefghijklmnopqrstuvwx", "docker login -u bot -p @@"),
        ("nvapi-abcdefghijklmnopqrstuvwxyz0123", "NGC_API_KEY=@@"),
        ("dapi0123456789abcdef0123456789abcdef", "DATABRICKS_TOKEN=@@"),
        ("hunter2hunter2", "PGPASSWORD=@@"),
        ("correct-horse-battery", "python train.py --db-password @@"),
        ("s3cr3t-pw", "mongodb://svc:@@@db.example.net:27017/runs"),
        ("redispw99", "redis://:@@@cache.example.net:6379/0"),
        ("dXNlcjpwYXNzd29yZDEyMw==", "Authorization: Basic @@"),
        ("abcdefghijkl0123mnop", "curl -H 'Authorization: Bearer @@' https://x.example.net"),
        ("sess-abcdefghijklmnop", "Cookie: session=@@"),
        ("client-secret-value-77", '{"client_id": "x", "client_secret": "@@"}'),
        ("AAAAC3NzaC1lZDI1NTE5AAAAIabcdefghijklmnopqrstuvwxyz01", "ssh-ed25519 @@ key"),
        ("b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAAAMwAAAAtzc2gtZW", "-----BEGIN OPENSSH PRIVATE KEY-----\n@@\n-----END OPENSSH PRIVATE KEY-----"),
        ("alice.walker@corp.example.com", "#SBATCH --mail-user=@@"),
        ("bwalker", 'File "/home/@@/megatron/train.py", line 10, in <module>'),
        ("carolsmith", "/lustre/fsw/users/@@/checkpoints/iter_0000500"),
        ("dsanchez", "USER=@@"),
        ("efischer", "JobId=4242 JobName=x UserId=@@(1001) GroupId=ml(1001)"),
        ("fgarcia", "ssh -p 2222 @@@gpu-a018 nvidia-smi"),
        ("10.44.17.3", "MASTER_ADDR=@@"),
        ("192.168.77.21", "[c10d] connect to [@@]:29500 failed"),
        ("2001:db8:12:34:56:78:9a:bc", "NET/Socket : Using [0]eth0:@@<0>"),
        ("fe80::1ff:fe23:4567:890a", "bound to @@%eth0"),
        ("0c:42:a1:7b:22:90", "link/ether @@ brd ff:ff"),
    ]
]  # fmt: skip


def planted_logs() -> dict[str, list[str]]:
    """The secrets in a kernel log around its Xid, in a raw diagnostic file, and in the failing rank's own words."""
    files = complete()
    lines = [part for _, line in PLANTED for part in line.split("\n")]
    name = next(name for name in files if name.startswith("kern-"))
    around = [row for line in lines for row in kernel(30.5, HOST, f"audit: {line}")]
    files[name] = [*files[name][:2], *around, *files[name][2:], *around]
    report = next(name for name in files if name.startswith("nvidia-bug-report"))
    files[report] = [*files[report][:-3], "environment", *lines, *files[report][-3:]]
    files[f"{HOST}.log"] += lines
    return files


def texts_of(bag: Path) -> dict[str, str]:
    found = {}
    for path in sorted(bag.rglob("*")):
        if path.suffix == ".parquet":
            found[path.name] = json.dumps(pq.read_table(path).to_pylist(), default=str)
        elif path.is_file():
            found[str(path.relative_to(bag))] = path.read_text("utf-8", "surrogateescape")
    return found


def test_fifty_planted_secrets_are_nowhere_in_the_bag(tmp_path: Path) -> None:
    assert len({secret for secret, _ in PLANTED}) >= 50
    logs = write(tmp_path / "logs", planted_logs())
    bag = tmp_path / "rma"
    assert main(["bundle", str(logs), "-o", str(bag)]) == 0
    texts = texts_of(bag)
    left = [(secret, path) for secret, _ in PLANTED for path, text in texts.items() if secret in text]
    left += [(secret, str(p)) for secret, _ in PLANTED for p in bag.rglob("*") if secret in p.name]
    assert left == []
    everything = "\n".join(texts.values())
    assert SERIAL in everything and UUID in everything and "0000:cb:00" in everything
    assert main(["bundle", "verify", str(bag)]) == 0
    known = {value for values in read_map(tmp_path / "rma.private-map.json").values.values() for value in values}
    assert {"bwalker", "10.44.17.3", "hunter2hunter2"} <= known


def test_without_redaction_they_are_there_and_no_map_is(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", planted_logs())
    assert main(["bundle", str(logs), "-o", str(tmp_path / "rma"), "--redact", "none"]) == 0
    everything = "\n".join(texts_of(tmp_path / "rma").values())
    assert all(secret in everything for secret, _ in PLANTED)
    assert not list(tmp_path.glob("*private-map*"))


def test_strict_masks_hosts_the_same_way_everywhere(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", complete())
    bag = tmp_path / "rma"
    assert main(["bundle", str(logs), "-o", str(bag), "--redact", "strict"]) == 0
    texts = texts_of(bag)
    assert not [path for path, text in texts.items() if any(host in text for host in HOSTS)]
    assert not [path for path in bag.rglob("*") if any(host in path.name for host in HOSTS)]
    values = read_map(tmp_path / "rma.private-map.json").values["host"]
    assert values[HOSTS[0]] == "masked-host-1" and values[HOST] == "masked-host-2"
    rows = list(csv.DictReader(io.StringIO(texts["data/timeline.csv"])))
    assert {row["node"] for row in rows if row["event"] == "kernel.xid"} == {"masked-host-2"}
    assert main(["bundle", "verify", str(bag)]) == 0


def test_a_map_given_again_is_continued(tmp_path: Path) -> None:
    logs = write(tmp_path / "logs", planted_logs())
    shared = tmp_path / "case.json"
    for name in ("one.zip", "two.zip"):
        assert main(["bundle", str(logs), "-o", str(tmp_path / name), "--map", str(shared)]) == 0
    first, second = (payload_of(tmp_path / name) for name in ("one.zip", "two.zip"))
    assert first == second


def payload_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name.partition("/data/")[2]: archive.read(name) for name in archive.namelist() if "/data/" in name}


def test_a_value_known_from_one_place_is_masked_in_all(tmp_path: Path) -> None:
    redactor = Redactor(Placeholders(), kinds_at("default"))
    redactor.learn("PGPASSWORD=blue-giraffe-42")
    assert "giraffe" not in redactor.text("psql said: wrong blue-giraffe-42 for x")
    redactor.learn('File "/home/bwalker/x.py"')
    assert redactor.text("job of bwalker; bwalkerton stays; log bwalker_run7") == (
        "job of masked-user-1; bwalkerton stays; log masked-user-1_run7"
    )


def test_lines_stay_lines() -> None:
    key = "\n".join(base64.b64encode(bytes(range(n, n + 48))).decode() for n in range(0, 96, 48))
    text = f"a\n-----BEGIN RSA PRIVATE KEY-----\n{key}\n-----END RSA PRIVATE KEY-----\nPASSWORD=abcdef12\r\n\udc80 end"
    redactor = Redactor(Placeholders(), kinds_at("strict"))
    masked = redactor.text(text)
    assert masked.count("\n") == text.count("\n") and masked.endswith("\udc80 end") and key[:20] not in masked


def test_unknown_levels_and_kinds_are_said() -> None:
    with pytest.raises(UsageError, match="known are none, default, strict"):
        kinds_at("much")
    with pytest.raises(UsageError, match="no kind of value 'gpu'"):
        kinds_at("default", ["gpu"])
    assert "ip" not in kinds_at("default", keep=["ip"]) and "host" in kinds_at("default", mask=["host"])
