"""Errors of `cuttle stack`: code, title, explanation, hint. `abi/errors.py` makes rows of them."""

from __future__ import annotations

STACK_ERRORS: tuple[tuple[str, str, str, str], ...] = (
    # -- manifests
    ("STK-0101", "unreadable manifest", "The manifest is no JSON of the schema, or says things that cannot be: two assets of one name, a hash that is none, a URL that is not HTTPS.", "docs/reference/stack-manifests.md describes the schema; `cuttle stack pin` writes one."),
    ("STK-0102", "asset without a hash", "Nobody published a SHA-256 of this file, so what is downloaded could not be told from something else. Cuttle installs nothing that it cannot check.", "Download it yourself from the page shown and pin it: `cuttle stack pin NAME=FILE --output my.json`, then `cuttle stack install --manifest my.json`."),
    ("STK-0103", "no such channel", "There is no manifest of this name.", "`cuttle stack plan --list` shows the channels; --manifest takes a file."),
    ("STK-0104", "nothing for this platform", "The manifest has no asset of this kind for this operating system.", "`cuttle stack plan --list` shows what there is."),
    ("STK-0105", "package missing", "Downloads need Python packages that are not installed.", "pip install httpx2 stamina, into the environment of `cuttle`."),
    ("STK-0106", "asset cannot be pinned", "A file or name given to `pin` does not fit the manifest it starts from.", "NAME is an asset of the channel: `cuttle stack plan --list`."),
    # -- downloads
    ("STK-0201", "download failed", "The file could not be fetched from any of its addresses, after several tries.", "Try again: it goes on where it stopped. --mirror URL names another place; the hash is checked all the same."),
    ("STK-0202", "wrong hash", "What was downloaded is not the file of the manifest. It was deleted and nothing was unpacked.", "Try again or use another mirror. If it stays: the file was replaced, or somebody is in between; do not install it."),
    ("STK-0203", "wrong size", "The server offers a file of another size than the manifest says.", "The file was replaced, or the mirror holds something else: use another mirror, or pin the new file if you trust it."),
    ("STK-0204", "insecure address", "Downloads use HTTPS only, and follow redirects to HTTPS only. Plain HTTP is allowed to this machine itself.", "Use an https:// mirror."),
    # -- archives
    ("STK-0301", "dangerous archive", "The archive has members that would land outside its folder, links, device names or names that collide. It was refused whole.", "Do not unpack it by hand either. Where did it come from?"),
    ("STK-0302", "damaged archive", "The archive cannot be read, although its hash is right or was never pinned.", "Pin the right file, or report the manifest."),
    ("STK-0303", "archive too large", "The archive unpacks to more files or bytes than its manifest or the general limit allows.", "If it is genuine, raise `unpacked_bytes_limit` in the manifest."),
    # -- installing
    ("STK-0401", "disk full", "There is not enough room. What was begun is rolled back or goes on with the next run; nothing is half-installed.", "Free some space, or choose another folder with --root or CUTTLE_STACK_DIR."),
    ("STK-0402", "busy", "Another `cuttle stack` is changing this installation.", "Wait for it to end."),
    ("STK-0403", "unusable installation", "The folder's records cannot be read or belong to a newer version. Nothing was changed.", "Choose another folder with --root, or move this one away."),
    ("STK-0404", "files differ", "Installed files are missing or were changed since they were installed.", "Antivirus tools are a usual reason for missing DLLs: exclude the folder, then `cuttle stack install` again."),
    ("STK-0405", "not installed", "This component or engine is not installed.", "`cuttle stack install` installs it."),
    ("STK-0406", "cannot write", "A file or folder of the installation cannot be written.", "Check the permissions, or choose another folder with --root."),
    ("STK-0407", "requirement not met", "What the engine needs from the machine is missing, so it was not installed.", "`cuttle stack doctor` says what is missing; --force installs all the same."),
    # -- staging
    ("STK-0501", "file in the way", "The folder already holds a file of a name that would be staged, and Cuttle did not put it there. Nothing was changed.", "Move the file away if the program does not need it, or use `cuttle stack run --no-stage`."),
    ("STK-0502", "nothing staged", "Nothing was staged in this folder.", "Name the folder of the program."),
    ("STK-0503", "folder not writable", "Libraries cannot be placed beside the program. What was begun was undone.", "Copy the program to a folder of your own, or use `cuttle stack run --no-stage`."),
    ("STK-0504", "staged file was changed", "A staged file is no longer the one that was placed: an update of the program may have replaced it. It was left alone.", "Look at it, and delete it yourself if it is not needed."),
    ("STK-0505", "unreadable staging record", "The record of what was staged here is damaged. Nothing was changed.", "Delete .cuttle-stage.json and the engine's libraries beside the program by hand."),
    ("STK-0506", "other engine staged", "Libraries of another engine or version are staged here.", "`cuttle stack unstage` first."),
    # -- running
    ("STK-0601", "program not found", "There is no such program. Exit code 127.", "Check the path."),
    ("STK-0602", "argument cannot be passed", "Windows has no way to pass this argument to this program unchanged. Exit code 125.", "Batch files read arguments by rules of their own: start the program that the batch file starts."),
    ("STK-0603", "engine missing", "The engine's libraries are not there. Exit code 125.", "`cuttle stack install`, or another --engine."),
    ("STK-0604", "cannot be started", "The system refused to start the program. Exit code 126.", "Is it a program for this system?"),
    # -- scanning
    ("STK-0701", "no AMD GPU", "Neither the kernel driver nor PCI nor Windows names an AMD GPU.", "In a container: pass /dev/kfd and /dev/dri. The engine `cuttle` also runs on the CPU."),
    ("STK-0702", "no such GPU", "There is no GPU of this index.", "`cuttle stack scan` lists them."),
    ("STK-0703", "unreadable result", "A stored result or report file is no JSON of the expected form.", "Make it again with the command that it belongs to."),
    # -- checks
    ("STK-0801", "library check failed", "A library did not do what it was asked for; the step says how far it came.", "`cuttle stack doctor` looks at the parts."),
    ("STK-0802", "finding", "The doctor found something that keeps the stack from working, or may.", "Follow the hint of the finding."),
    ("STK-0803", "no such check", "There is no check or library of this name.", "`cuttle stack check --list` and `cuttle stack doctor --list-checks` name them."),
    # -- reports
    ("STK-0901", "nothing to report", "There are no stored results to make a report from.", "`cuttle stack scan` and `cuttle stack check` make some."),
    # -- probe
    ("STK-1001", "no such capability test", "There is no capability test or group of this name.", "`cuttle stack probe --list` names them."),
    ("STK-1002", "test cannot be started", "The Python that is to run the tests cannot be started.", "--python takes the path of an interpreter."),
    ("STK-1003", "capability missing", "Some capability tests gave wrong answers, crashed or did not end.", "The hint says how to run one of them alone; `cuttle stack doctor` looks at the machine."),
    # -- bench
    ("STK-1101", "unreadable configuration", "A configuration is ENGINE[:DEVICE][,NAME=VALUE]...", "For example: --a cuttle:cpu --b cuttle:cpu,CUTTLE_FAST_MATH=1"),
    ("STK-1102", "no such workload", "There is no workload of this name.", "`cuttle stack bench --list` names them; a command of your own stands behind --."),
    ("STK-1103", "workload failed", "The workload's process ended with an error, so there is nothing to compare.", "Run the command that the hint shows: the workload alone, on the same engine."),
    ("STK-1104", "unreadable metrics", "A workload prints one JSON line per iteration, with finite numbers by name: {\"metrics\": {\"seconds\": 1.5}}.", "docs/how-to/compare-engines.md has an example."),
    ("STK-1105", "too few iterations", "The first iteration of every process is dropped, so there must be at least two.", "Print one line per iteration, and at least two."),
    ("STK-1106", "workload takes too long", "The workload did not end in time and was ended.", "--timeout SECONDS allows more; --size small makes it smaller."),
    ("STK-1107", "engine without a device", "One of the two engines to compare cannot be loaded, or has no device here; nothing was run.", "Compare others: `cuttle stack bench ppo --a cuttle --b cuttle,CUTTLE_FAST_MATH=1`"),
)  # fmt: skip
