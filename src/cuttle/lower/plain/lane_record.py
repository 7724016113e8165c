"""What the scheduler keeps of each lane: 32 bytes in the warp's frame, all members u32."""

from __future__ import annotations

LANE_RECORD_BYTES = 32
# The next step; where the lane's activation begins in its local memory; what it does; the lanes it waits for; and of the
# barrier it is at: kind (a stop reason), number, threads, whether its predicate holds.
PC_AT, BASE_AT, STATUS_AT, NEED_AT, KIND_AT, NUMBER_AT, THREADS_AT, PREDICATE_AT = range(0, 32, 4)
READY, WAITING, AT_BARRIER, EXITED = range(4)
