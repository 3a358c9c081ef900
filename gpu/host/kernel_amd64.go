package host

import "golang.org/x/sys/cpu"

// available lists the instruction sets that this machine has, the fastest first.
func available() []kernels {
	var all []kernels
	if cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL {
		all = append(all, avx512Kernels())
	}
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		all = append(all, avx2Kernels())
	}
	return append(all, goKernels())
}

func avx512Kernels() kernels {
	return kernels{
		name: "avx512", rows: 12, width: 32,
		f32: avx512F32Tiles(), bf16: avx512BF16Tiles(), half: avx512HalfTiles(),
		tall: 16, tallF32: avx512TallF32Tiles(), tallBF16: avx512TallBF16Tiles(), alone: avx512Alones(),
		loops: avx512Loops(),
	}
}

func avx2Kernels() kernels {
	return kernels{
		name: "avx2", rows: 6, width: 16,
		f32: avx2F32Tiles(), bf16: avx2BF16Tiles(), half: avx2F32Tiles(),
		tall: 6, tallF32: avx2TallF32Tiles(), tallBF16: avx2TallBF16Tiles(), soon: true, alone: avx2Alones(),
		loops: avx2Loops(),
	}
}
