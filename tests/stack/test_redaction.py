"""What must not leave a machine, and what must."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuttle.stack.redaction import Identity, redact, redact_document

JANE = Identity(
    ("jane.doe",), ("WORKBENCH-7", "workbench"), ("/home/jane.doe", "C:\\Users\\jane.doe"), ("correct-horse-battery",)
)


@pytest.mark.parametrize(
    "text",
    [
        "/home/jane.doe/projects/x.cu:3: error",
        "C:\\Users\\jane.doe\\AppData\\Local\\x.dll",
        '{"path": "C:\\\\Users\\\\jane.doe\\\\x"}',
        "c:/users/Jane.Doe/x",
        "user JANE.DOE on Workbench-7",
        "jane.doe@workbench:~$",
        "key correct-horse-battery end",
    ],
)
def test_this_user_and_machine(text: str) -> None:
    found = redact(text, JANE).lower()
    assert "jane" not in found
    assert "workbench" not in found
    assert "battery" not in found


@pytest.mark.parametrize(
    "text,gone",
    [
        ("/home/somebody/x", "somebody"),
        ("D:\\Users\\Somebody Else\\x", "Somebody"),
        ("C:\\Benutzer\\hans\\x", "hans"),
        ("token ghp_abcdefghijklmnopqrstuvwxyz0123456789", "ghp_"),
        ("HF_TOKEN=hf_abcdefghijklmnopqrstuvwx", "hf_"),
        ("Authorization: Bearer abcdef0123456789xyz", "abcdef0123456789xyz"),
        ("password='hunter2 and more' next", "hunter2"),
        ("api_key: 12345abc", "12345abc"),
        ("https://me:pass@example.org/x", "pass"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abc", "eyJ"),
        ("AKIAABCDEFGHIJKLMNOP", "AKIA"),
        ("from 192.168.178.23:8080", "192.168"),
        ("ether 3c:7c:3f:1a:2b:3c", "3c:7c"),
        ("write to jane@example.org", "jane"),
        ("S-1-5-21-3623811015-3361044348-30300820-1013", "3623811015"),
        ("Uuid: GPU-e56b237e725ec427", "e56b237e725ec427"),
    ],
)
def test_forms_of_others(text: str, gone: str) -> None:
    assert gone not in redact(text, Identity())


@pytest.mark.parametrize(
    "text",
    [
        "AMD Radeon RX 7900 XTX gfx1100",
        "driver 32.0.12033.1030",
        "driver 31.0.24019.1006, 27.20.15026.1005",
        "Windows 10.0.26100.4061",
        "http://127.0.0.1:8000/release.zip",
        "zluda v6-preview.69, SHA-256 e2959ed17c8ddae6bf2bf76cf3a7348f577a2548754685d776389df2220e5d9a",
        "ended by SIGSEGV: cublasSgemm_v2 answered 7",
        "root user default: the host has 2 users",
        "hip_visible_device 1; 2026-12-01T05:14:25Z",
        "element 3 is 47.0, not 46.0",
    ],
)
def test_what_stays(text: str) -> None:
    assert redact(text, JANE) == text


def test_short_and_common_names_are_not_looked_for() -> None:
    identity = Identity(("root", "al"), ("pc",), ("/root", "/"), ())
    assert redact("the root of all, al, pc, /root/x", identity) == "the root of all, al, pc, /root/x"


def test_a_name_within_a_word_stays() -> None:
    assert redact("classical class_a", Identity(("lass",), (), (), ())) == "classical class_a"


def test_documents() -> None:
    document = {"jane.doe": [{"a": "/home/jane.doe/x"}, 3, None, True], "plain": "text"}
    assert redact_document(document, JANE) == {"(user)": [{"a": "~/x"}, 3, None, True], "plain": "text"}


@given(st.text(max_size=80))
def test_redacting_twice_changes_nothing_more(text: str) -> None:
    once = redact(f"/home/jane.doe/{text} token=abc {text}", JANE)
    assert redact(once, JANE) == redact(redact(once, JANE), JANE)
    assert "/home/jane.doe/" not in once


def test_this_identity() -> None:
    found = Identity.here(
        {"USER": "jane.doe", "MY_API_TOKEN": "0123456789", "PATH": "/usr/bin", "HOME": "/home/jane.doe"}
    )
    assert "jane.doe" in found.users
    assert found.secrets == ("0123456789",)
    assert "/home/jane.doe" in found.homes
