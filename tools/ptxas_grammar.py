"""What might be a form: for each opcode every modifier and type that PTX knows, legal together or not.

`ask_ptxas.py` asks ptxas which of them it takes. The patterns are in the notation of the rows (`abi/ptx_isa/syntax.py`),
but wider on purpose: the rows say what is legal, this says what somebody could write. Hints that change no result
(cache operators, eviction priorities, prefetch sizes) are tried one at a time, not in all combinations.
"""

from __future__ import annotations

INT = "(.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64)"
BITS = "(.b8|.b16|.b32|.b64|.b128)"
FLOAT = "(.f16|.f16x2|.bf16|.bf16x2|.tf32|.f32|.f64|.f32x2)"
VECTORS = "(.u16x2|.s16x2|.u8x4|.s8x4)"
ANY = f"({INT}|{BITS}|{FLOAT}|{VECTORS}|.pred)"
WORDS = f"({INT}|{BITS}|.f32|.f64)"
RND = "[.rn|.rz|.rm|.rp]"
HOW = "[.approx|.full|.rn|.rz|.rm|.rp]"
CMP = "(.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan)"
BOOL = "[.and|.or|.xor]"
PLAIN = f"({INT}|.f16|.bf16|.f32|.f64|.tf32)"
PACKED = "(.f16x2|.bf16x2|.e4m3x2|.e5m2x2|.e2m1x2|.e2m3x2|.e3m2x2|.ue8m0x2|.s2f6x2)"
ROUNDING = "[.rn|.rz|.rm|.rp|.rni|.rzi|.rmi|.rpi|.rna|.rs]"
SIGN = "(.u32|.s32)"
SPACE = "[.const|.global|.local|.param|.param::entry|.param::func|.shared|.shared::cta|.shared::cluster]"
GENERIC = "[.global|.shared|.shared::cta|.shared::cluster]"
SCOPE = "(.cta|.cluster|.gpu|.sys)"
GEOMETRY = "(.1d|.2d|.3d|.a1d|.a2d|.cube|.acube|.2dms|.a2dms)"
CLAMP = "(.trap|.clamp|.zero)"
SHAPE = "(.m16n16k16|.m8n32k16|.m32n8k16|.m16n16k8|.m8n8k4|.m8n8k32|.m8n8k128)"

# One hint at a time.
CACHE = "[.ca|.cg|.cs|.lu|.cv|.cop]"
LD_HINTS = (
    "[.ca|.cg|.cs|.lu|.cv|.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate"
    "|.L2::evict_normal|.L2::evict_last|.L2::evict_first|.L2::cache_hint|.L2::64B|.L2::128B|.L2::256B]"
)
ST_HINTS = (
    "[.wb|.cg|.cs|.wt|.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate"
    "|.L2::evict_normal|.L2::evict_last|.L2::evict_first|.L2::cache_hint]"
)
# ptxas 13.0 takes `.v8` of 8- and 16-bit elements or not as the wind blows (the answer differs from run to run).
VECTOR = "[.v2|.v4]"

GRAMMAR: dict[str, tuple[str, ...]] = {
    **{
        name: (f"{name}{RND}[.ftz][.sat][.cc]{ANY}", f"{name}{RND}[.ftz][.sat](.f32|.f64)(.f16|.bf16|.f32|.f64)")
        for name in ("add", "sub")
    },
    "mul": (f"mul[.lo|.hi|.wide]{RND}[.ftz][.sat]{ANY}", f"mul{RND}[.ftz][.sat](.f32|.f64)(.f16|.bf16|.f32)"),
    "mad": (f"mad[.lo|.hi|.wide]{RND}[.ftz][.sat][.cc]{ANY}",),
    "fma": (f"fma{RND}[.ftz][.sat|.relu|.oob|.oob.relu]{ANY}", f"fma{RND}[.ftz][.sat|.relu](.f32|.f64)(.f16|.bf16|.f32)"),
    **{name: (f"{name}[.sat][.cc]{ANY}",) for name in ("addc", "subc")},
    "madc": (f"madc[.lo|.hi|.wide][.sat][.cc]{ANY}",),
    **{name: (f"{name}[.sat]{ANY}",) for name in ("sad", "rem", "popc", "clz", "brev", "bfe", "bfi", "fns", "cnot", "not")},
    "div": (f"div{HOW}[.ftz][.sat]{ANY}",),
    **{name: (f"{name}[.ftz][.sat]{ANY}",) for name in ("abs", "neg")},
    **{name: (f"{name}[.ftz][.NaN][.xorsign|.abs|.xorsign.abs][.relu]{ANY}",) for name in ("min", "max")},
    **{name: (f"{name}[.lo|.hi|.wide][.sat]{ANY}",) for name in ("mul24", "mad24")},
    "bfind": (f"bfind[.shiftamt]{ANY}",),
    **{name: (f"{name}[.clamp|.wrap]{ANY}",) for name in ("szext", "bmsk")},
    "dp4a": (f"dp4a[.sat]{INT}{INT}", "dp4a.b32.b32"),
    "dp2a": (f"dp2a[.lo|.hi][.sat]{INT}{INT}", "dp2a[.lo|.hi].b32.b32"),
    "testp": (f"testp(.finite|.infinite|.number|.notanumber|.normal|.subnormal)[.ftz]{FLOAT}",),
    "copysign": (f"copysign[.ftz]{FLOAT}",),
    **{name: (f"{name}{HOW}[.ftz][.sat]{FLOAT}",) for name in ("rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh")},
    **{name: (f"{name}{ANY}",) for name in ("and", "or", "xor", "selp", "mov")},
    "lop3": (f"lop3[.and|.or|.xor]{ANY}",),
    "shf": (f"shf[.l|.r][.clamp|.wrap]{ANY}",),
    **{name: (f"{name}[.clamp|.wrap]{ANY}",) for name in ("shl", "shr")},
    "prmt": ("prmt(.b32|.u32|.s32|.b64|.b16)[.f4e|.b4e|.rc8|.ecl|.ecr|.rc16]",),
    "set": (f"set{CMP}{BOOL}[.ftz](.u16|.s16|.u32|.s32|.b32|.u64|.f16|.f16x2|.bf16|.bf16x2|.f32|.f64){ANY}",),
    "setp": (f"setp{CMP}{BOOL}[.ftz]{ANY}",),
    "slct": (f"slct[.ftz]{ANY}(.s32|.f32|.u32|.b32|.s64|.f64|.s16|.f16)",),
    "cvt": (
        f"cvt{ROUNDING}[.ftz][.relu][.sat|.satfinite]{PLAIN}{PLAIN}",
        f"cvt{ROUNDING}[.ftz][.relu][.sat|.satfinite]{PACKED}(.f32|.f16x2|.bf16x2)",
        f"cvt{ROUNDING}[.ftz][.relu][.sat|.satfinite](.f16x2|.bf16x2)(.e4m3x2|.e5m2x2|.e2m1x2|.e2m3x2|.e3m2x2|.ue8m0x2)",
        "cvt.rs[.relu][.satfinite](.e4m3x4|.e5m2x4|.e2m1x4|.e2m3x4|.e3m2x4).f32",
    ),
    "cvt.pack": ("cvt.pack[.sat](.u16|.s16|.u8|.s8|.u4|.s4|.u2|.s2|.u32|.s32)(.s32|.u32|.s16)[.b32]",),
    "cvta": (f"cvta[.to]{SPACE}{ANY}",),
    "isspacep": (f"isspacep{SPACE}",),
    **{
        name: (f"{name}(.u32|.s32|.b32)(.u32|.s32|.b32)(.u32|.s32|.b32)[.sat][.add|.min|.max]",)
        for name in ("vadd", "vsub", "vabsdiff", "vmin", "vmax")
    },
    **{name: (f"{name}{SIGN}{SIGN}{SIGN}[.sat][.clamp|.wrap][.add|.min|.max]",) for name in ("vshl", "vshr")},
    "vmad": (f"vmad{SIGN}{SIGN}{SIGN}[.po][.sat][.shr7|.shr15]",),
    "vset": (f"vset{SIGN}{SIGN}{CMP}[.sat][.add|.min|.max]",),
    **{
        f"{name}{ways}": (f"{name}{ways}{SIGN}{SIGN}{SIGN}[.sat][.add|.min|.max]",)
        for name in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax")
        for ways in (2, 4)
    },
    **{f"vset{ways}": (f"vset{ways}{SIGN}{SIGN}{CMP}[.add|.min|.max]",) for ways in (2, 4)},
    # -- memory --------------------------------------------------------------------------------------------------
    "ld": (
        f"ld{SPACE}{VECTOR}({WORDS}|.f16|.f16x2|.bf16|.pred)",
        f"ld(.weak|.volatile|.relaxed.cta|.relaxed.cluster|.relaxed.gpu|.relaxed.sys|.acquire.cta|.acquire.gpu|.acquire.sys|.mmio.relaxed.sys){SPACE}{VECTOR}{WORDS}",
        f"ld[.weak]{SPACE}{LD_HINTS}[.v2|.v4](.b8|.u32|.f64|.b128)",
        f"ld.global[.nc|.ca.nc|.cg.nc|.cs.nc|.nc.L1::no_allocate|.nc.L1::evict_last|.nc.L2::64B|.nc.L2::128B|.nc.L2::256B|.nc.L2::cache_hint]{VECTOR}{WORDS}",
    ),
    "ldu": (f"ldu{SPACE}{VECTOR}{WORDS}",),
    "st": (
        f"st{SPACE}{VECTOR}({WORDS}|.f16|.f16x2|.bf16|.pred)",
        f"st(.weak|.volatile|.relaxed.cta|.relaxed.cluster|.relaxed.gpu|.relaxed.sys|.release.cta|.release.gpu|.release.sys|.mmio.relaxed.sys){SPACE}{VECTOR}{WORDS}",
        f"st[.weak]{SPACE}{ST_HINTS}[.v2|.v4](.b8|.u32|.f64|.b128)",
    ),
    "prefetch": (
        "prefetch[.global|.local|.const|.param|.shared](.L1|.L2|.L1::evict_last|.L2::evict_last|.L2::evict_normal|.tensormap)",
    ),
    "prefetchu": ("prefetchu(.L1|.L2)",),
    "applypriority": ("applypriority[.global|.local](.L2::evict_normal|.L2::evict_last)",),
    "discard": ("discard[.global|.local](.L2|.L1)",),
    "createpolicy": (
        ("createpolicy.fractional(.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged)"
        "[.L2::evict_first|.L2::evict_unchanged].b64"),
        ("createpolicy.range[.global](.L2::evict_last|.L2::evict_normal|.L2::evict_first|.L2::evict_unchanged)"
        "[.L2::evict_first|.L2::evict_unchanged].b64"),
        "createpolicy.cvt.L2.b64",
    ),
    # -- atomics -------------------------------------------------------------------------------------------------
    **{
        name: (
            f"{name}{GENERIC}(.and|.or|.xor|.add|.min|.max|.inc|.dec|.exch|.cas)[.noftz]{ANY}",
            (f"{name}(.relaxed|.acquire|.release|.acq_rel)[.cta|.cluster|.gpu|.sys]{GENERIC}"
            "(.and.b32|.add.u32|.add.f32|.exch.b64|.cas.b16|.cas.b128|.min.s64)"),
            f"{name}{SCOPE}{GENERIC}(.and.b32|.add.u32|.add.f64|.exch.b64|.cas.b32|.max.u64|.add.noftz.f16x2)",
            f"{name}[.global|.shared](.add|.min|.max|.exch|.and)[.noftz](.v2|.v4|.v8)(.f16|.f16x2|.bf16|.bf16x2|.f32|.b32)",
            f"{name}.global(.add.u32|.exch.b32|.min.s32|.add.f32).L2::cache_hint(.u32|.b32|.s32|.f32)",
        )
        for name in ("atom", "red")
    },
    # -- warp ----------------------------------------------------------------------------------------------------
    "shfl": ("shfl[.sync](.up|.down|.bfly|.idx)(.b32|.u32|.s32|.f32|.b64|.b16)",),
    "vote": ("vote[.sync](.all|.any|.uni)(.pred|.b32)", "vote[.sync].ballot(.b32|.u32|.pred)"),
    "match": (f"match(.any|.all)[.sync]{BITS}", "match(.any|.all).sync(.u32|.u64|.s32|.f32)"),
    "activemask": ("activemask(.b32|.u32|.b64)",),
    "redux.sync": (f"redux.sync(.add|.min|.max|.and|.or|.xor)[.abs][.NaN]({INT}|{BITS}|.f32|.f64|.pred)",),
    "elect.sync": ("elect.sync",),
    # -- barriers ------------------------------------------------------------------------------------------------
    "bar": ("bar[.cta](.sync|.arrive)", "bar[.cta].red(.popc|.and|.or|.xor)(.u32|.pred|.b32)"),
    "barrier": (
        "barrier[.cta](.sync|.arrive)[.aligned]", "barrier[.cta].red(.popc|.and|.or|.xor)[.aligned](.u32|.pred|.b32)",
    ),
    "bar.warp.sync": ("bar.warp.sync",),
    "membar": ("membar(.cta|.gl|.sys|.gpu|.cluster)",),
    "fence": (
        f"fence[.sc|.acq_rel|.acquire|.release]{SCOPE}",
        "fence(.acquire|.release).sync_restrict(.shared::cluster|.shared::cta)(.cluster|.cta)",
        "fence.proxy(.alias|.async|.async.global|.async.shared::cta|.async.shared::cluster|.tensormap)",
        f"fence.proxy.tensormap::generic(.acquire|.release){SCOPE}",
        "fence.mbarrier_init.release.cluster",
    ),
    "griddepcontrol": ("griddepcontrol(.launch_dependents|.wait)",),
    "nanosleep": ("nanosleep(.u32|.b32|.u64)",),
    "pmevent": ("pmevent[.mask]",),
    # -- matrices ------------------------------------------------------------------------------------------------
    "wmma.load": (
        (f"wmma.load(.a|.b|.c).sync[.aligned](.row|.col){SHAPE}[.global|.shared|.shared::cta|.local]"
        "(.f16|.bf16|.tf32|.f32|.f64|.s8|.u8|.s4|.u4|.b1|.s32)"),
    ),
    "wmma.store": (
        f"wmma.store.d.sync[.aligned](.row|.col){SHAPE}[.global|.shared|.shared::cta|.local](.f16|.bf16|.f32|.f64|.s32)",
    ),
    "wmma.mma": (
        f"wmma.mma.sync.aligned(.row|.col)(.row|.col){SHAPE}(.f16|.f32)(.f16|.f32)[.satfinite]",
        (f"wmma.mma.sync.aligned(.row|.col)(.row|.col){SHAPE}[.rn|.rz|.rm|.rp](.f32|.f64|.s32)"
        "(.bf16.bf16|.tf32.tf32|.f64.f64|.s8.s8|.u8.u8|.s8.u8|.s4.s4|.u4.u4|.f16.f16)(.f32|.f64|.s32)[.satfinite]"),
        f"wmma.mma(.xor|.and)[.popc].sync.aligned(.row|.col)(.row|.col){SHAPE}.s32.b1.b1.s32",
    ),
    "mma": (
        ("mma.sync.aligned(.m8n8k4|.m16n8k4|.m16n8k8|.m16n8k16|.m16n8k32)(.row|.col)(.row|.col)[.rn|.rz|.rm|.rp][.satfinite]"
        "(.f16|.f32|.f64)(.f16.f16|.bf16.bf16|.tf32.tf32|.f64.f64|.f16.bf16)(.f16|.f32|.f64)"),
        ("mma.sync.aligned(.m8n8k16|.m16n8k16|.m16n8k32|.m8n8k32|.m16n8k64).row.col[.satfinite].s32"
        "(.s8|.u8|.s4|.u4)(.s8|.u8|.s4|.u4).s32"),
        "mma.sync.aligned(.m8n8k128|.m16n8k128|.m16n8k256)(.row|.col).col.s32.b1.b1.s32(.xor|.and)[.popc]",
        "mma.sync.aligned(.m16n8k16|.m16n8k32)(.row|.col)(.row|.col)(.f16|.f32)(.e4m3|.e5m2)(.e4m3|.e5m2)(.f16|.f32)",
    ),
    **{
        name: (
            (f"{name}.sync.aligned(.m16n8k8|.m16n8k16|.m16n8k32|.m16n8k64).row.col(.f16|.f32)"
            "(.f16.f16|.bf16.bf16|.tf32.tf32)(.f16|.f32)"),
            (f"{name}.sync.aligned(.m16n8k32|.m16n8k64|.m16n8k128).row.col[.satfinite].s32"
            "(.s8|.u8|.s4|.u4)(.s8|.u8|.s4|.u4).s32"),
            f"{name}.sync.aligned(.m16n8k32|.m16n8k64).row.col(.f16|.f32)(.e4m3|.e5m2)(.e4m3|.e5m2)(.f16|.f32)",
        )
        for name in ("mma.sp", "mma.sp::ordered_metadata")
    },
    "ldmatrix": ("ldmatrix.sync.aligned(.m8n8|.m16n16|.m8n16)(.x1|.x2|.x4)[.trans][.shared|.shared::cta](.b16|.b8)",),
    "stmatrix": ("stmatrix.sync.aligned(.m8n8|.m16n8)(.x1|.x2|.x4)[.trans][.shared|.shared::cta](.b16|.b8)",),
    "movmatrix": ("movmatrix.sync.aligned.m8n8[.trans](.b16|.b8)",),
    # -- textures ------------------------------------------------------------------------------------------------
    "tex": (f"tex[.base|.level|.grad]{GEOMETRY}(.v4|.v2)(.u32|.s32|.f32|.f16x2|.f16)(.s32|.f32)",),
    "tld4": (f"tld4(.r|.g|.b|.a){GEOMETRY}(.v4|.v2)(.u32|.s32|.f32|.f16x2)(.f32|.s32)",),
    "txq": (
        ("txq(.width|.height|.depth|.array_size|.num_mipmap_levels|.num_samples|.channel_data_type|.channel_order"
        "|.normalized_coords|.force_unnormalized_coords|.filter_mode|.addr_mode_0|.addr_mode_1|.addr_mode_2)(.b32|.u32)"),
        "txq.level(.width|.height|.depth).b32",
    ),
    "suld": (f"suld(.b|.p){GEOMETRY}[.ca|.cg|.cs|.cv][.v2|.v4](.b8|.b16|.b32|.b64|.u32|.s32|.f32){CLAMP}",),
    "sust": (f"sust(.b|.p){GEOMETRY}[.wb|.cg|.cs|.wt][.v2|.v4](.b8|.b16|.b32|.b64|.u32|.s32|.f32){CLAMP}",),
    "sured": (f"sured(.b|.p)(.add|.min|.max|.and|.or){GEOMETRY}(.u32|.s32|.b32|.u64|.s64|.b64){CLAMP}",),
    "suq": ("suq(.width|.height|.depth|.channel_data_type|.channel_order|.array_size|.memory_layout)(.b32|.u32)",),
    "istypep": ("istypep(.texref|.samplerref|.surfref)",),
    # -- asynchronous --------------------------------------------------------------------------------------------
    "cp.async": (
        "cp.async(.ca|.cg)(.shared|.shared::cta|.shared::cluster).global[.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]",
    ),
    **{name: (name,) for name in ("cp.async.commit_group", "cp.async.wait_group", "cp.async.wait_all")},
    "cp.async.mbarrier.arrive": ("cp.async.mbarrier.arrive[.noinc][.shared|.shared::cta|.shared::cluster].b64",),
    **{
        f"mbarrier.{name}": (f"mbarrier.{name}[.relaxed|.relaxed.cta|.relaxed.cluster][.shared|.shared::cta|.shared::cluster].b64",)
        for name in ("init", "inval", "expect_tx", "complete_tx")
    },
    **{
        f"mbarrier.{name}": (
            f"mbarrier.{name}[.expect_tx][.release|.relaxed][.cta|.cluster][.shared|.shared::cta|.shared::cluster].b64",
            f"mbarrier.{name}.noComplete[.release.cta][.shared|.shared::cta].b64",
        )
        for name in ("arrive", "arrive_drop")
    },
    **{
        f"mbarrier.{name}": (
            f"mbarrier.{name}[.parity][.acquire|.relaxed][.cta|.cluster][.shared|.shared::cta|.shared::cluster].b64",
        )
        for name in ("test_wait", "try_wait")
    },
    "mbarrier.pending_count": ("mbarrier.pending_count[.shared].b64",),
}  # fmt: skip
