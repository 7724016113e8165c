"""`cuttle demo`: draws a picture by running a CUDA driver-API program under `cuttle run`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import click

from cuttle.cli import demo_program
from cuttle.cli.command_line import verb
from cuttle.cli.devices import client_environment, require_client
from cuttle.cli.render import Style
from cuttle.cli.result import Remark, Result, Text
from cuttle.errors import CuttleError

HERE = Path(__file__).parent
LARGEST = 8192


def extents(size: str) -> tuple[int, int]:
    width, _, height = size.partition("x")
    if not (width.isdigit() and height.isdigit() and 0 < int(width) <= LARGEST and 0 < int(height) <= LARGEST):
        raise click.BadParameter(f"{size} is no size such as 1024x768", param_hint="--size")
    return int(width), int(height)


def prepare(output: Path) -> None:
    """Finds out before anything is drawn whether the picture can be written. Raises CuttleError CLI-0602."""
    try:
        existed = output.exists()
        with output.open("ab"):
            pass
        if not existed:
            output.unlink()
    except OSError as error:
        raise CuttleError("CLI-0602", f"{output}: {error.strerror}") from None


@verb("demo")
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), default=Path("cuttle-demo.png"))
@click.option("--size", default="1024x768", metavar="WIDTHxHEIGHT", help="Pixels (default: 1024x768).")
@click.option("--samples", type=click.IntRange(1, 8), default=2, help="Rays a pixel, in each direction.")
@click.option("--angle", type=click.FloatRange(-1000, 1000), default=0.6, help="Where the camera stands, in radians.")
def command(style: Style, output: Path, size: str, samples: int, angle: float) -> Result:
    """Draw a picture: a quaternion Julia set, by a CUDA program that finds no NVIDIA GPU and does not notice.

    Prints the path of the PNG file.
    """
    width, height = extents(size)
    prepare(output)
    require_client()
    if not style.quiet and not style.json:
        sys.stderr.write(f"cuttle: drawing {width} x {height} pixels with {samples * samples} rays each ...\n")
    program = [sys.executable, str(HERE / "demo_program.py"), str(HERE / "julia.ptx"), str(output)]
    shape = [str(width), str(height), str(samples), str(angle)]
    command_line = [sys.executable, "-m", "cuttle", "run", "--", *program, *shape]
    done = subprocess.run(command_line, env=client_environment(), stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == demo_program.NOT_WRITTEN:
        raise CuttleError("CLI-0602", f"{output} could not be written")
    if done.returncode:
        how = f"signal {-done.returncode}" if done.returncode < 0 else f"exit code {done.returncode}"
        raise CuttleError("CLI-0601", f"the demo program ended with {how}")
    times = json.loads(done.stdout.splitlines()[-1])
    talk = (
        f"cuttle: {times['device']}: device ready in {times['start_s']:.2f} s, kernel compiled in "
        f"{times['compile_s']:.2f} s, drawn in {times['draw_s']:.2f} s"
    )
    data = {"output": str(output), "width": width, "height": height, "samples": samples, **times}
    return Result("demo", data, [Remark(talk), Text(str(output))])
