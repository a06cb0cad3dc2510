package llo

import (
	"strings"
	"testing"
)

// loop is the skeleton of a kernel's code as libtpu writes it: a loop with a start and
// an end that few rounds run, and a branch over all of it for the first and last.
const loop = `= control target key start
LB: loop body
= control target key end

     0   :  { %s1 = sld [smem:[#allocation0]] }
   0x1   :  { %s2 = smov.u32 0 } /* Start region 4 */
   0x2 LB: > { %s3 = sadd.s32 1, %s2 }
   0x3   : > { %9 = sbr.rel (%p1) target = $region32 }
   0x4   : > { %335 = sbr.rel (%p2) target = $region48 ;; %v1 = vmov 0.0 }
   0x5   : > { %336 = vst [vmem:[#allocation3]] }
   0x6   : > { %337 = vst [vmem:[#allocation4]] }
   0x7 PF: > { %v2 = vld [vmem:[%s5]] } /* Start/End empty region 48 */
   0x8   : > { %v3 = vmul.f32 %v2, %v2 }
   0x9   : > { %v4 = vmul.f32 %v3, %v2 }
   0xa   : > { %41 = sbr.rel (%p3) target = $region52 }
   0xb   : > { %v5 = vdiv.f32 %v4, %v2 }
   0xc PF: > { %s6 = sld [smem:[#allocation5]] } /* Start/End empty region 52 */
   0xd PF: > { %s7 = sld [smem:[#allocation6]] } /* Start/End empty region 32 */
   0xe   : > { %p9 = scmp.ge.s32.totalorder %s3, 18 /* loop exit test */ }
   0xf   :  { %34 = sbr.rel (!%p9) target = $region4 }
  0x10   :  { %36 = vsyncpa [#allocation10], 1 }
`

func TestRead(t *testing.T) {
	c, err := Read(loop)
	if err != nil {
		t.Fatal(err)
	}
	if c.Bundles != 17 || c.Loop != 14 || c.Rare != 3 || c.Hot() != 11 || c.Trips != 18 || c.Total() != 17-14+14*18 {
		t.Errorf("%+v, hot %d, in all %d", c, c.Hot(), c.Total())
	}
	straight, err := Read("     0   :  { %s1 = sld [smem:[#allocation0]] }\n   0x1   :  { }\n")
	if err != nil || straight.Bundles != 2 || straight.Loop != 0 || straight.Total() != 2 {
		t.Errorf("%+v, %v", straight, err)
	}
	for what, text := range map[string]string{
		"nothing":            "",
		"no way back":        strings.ReplaceAll(loop, "sbr.rel", "nop"),
		"a region elsewhere": strings.ReplaceAll(loop, "empty region 48", "empty region 49"),
	} {
		if c, err := Read(text); err == nil {
			t.Errorf("%s: %+v", what, c)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add(loop)
	f.Add("   0x1 LB: > { sbr.rel (%p1) target = $region99999999999999999999 }")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Read(text)
		if err == nil && (c.Bundles < 1 || c.Loop < 0 || c.Rare < 0 || c.Hot() < 0) {
			t.Errorf("%+v", c)
		}
	})
}

// What an aborted child wrote ends in a trace; the reason stands before it.
func TestReason(t *testing.T) {
	const aborted = "I1130 06:45:43.1 77 other.cc:1] starts\nF1130 06:45:44.829579   14239 llo_module.cc:76] Check failed: TakeStatus() is OK\n*** Check failure stack trace: ***\n    @ 0x7f absl::Flush()\nhttps://symbolize/r/?trace=7f\n"
	if got, want := exitReason(aborted), "llo_module.cc:76] Check failed: TakeStatus() is OK"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := exitReason("one\nlibtpu is not here\n"); got != "libtpu is not here" {
		t.Errorf("%q", got)
	}
}
