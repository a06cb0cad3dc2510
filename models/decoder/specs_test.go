package decoder_test

import (
	"testing"

	"weft/dtype"
	"weft/internal/modeltest"
	"weft/models"
)

var presets = []string{"reason1-7b", "hunyuan1.5-qwen-text", "hunyuan-llama3-8b", "ltx2.5-gemma4-12b"}

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range presets {
		modeltest.Oracle(t, name, "../../testdata/oracle/"+name+".json")
	}
}

func TestEveryNameOfTheMappings(t *testing.T) {
	for _, name := range presets {
		modeltest.Mapping(t, name, "../../testdata/oracle/mappings/"+name+".json", "")
	}
}

// What a device keeps less at tp=4 than under the peer's rules; README.md has it.
func TestSavedBytes(t *testing.T) {
	for name, want := range map[string]int64{"reason1-7b": 817496064, "hunyuan1.5-qwen-text": 10605815808, "hunyuan-llama3-8b": 11257380864, "ltx2.5-gemma4-12b": 1486356480} {
		if got := modeltest.Saved(t, name, 4); got != want {
			t.Errorf("%s: %d bytes less, want %d", name, got, want)
		}
	}
}

// One layer and the table's lookup. The fixture: B = 2, L = 37 tokens, D = 64, 8
// heads of 8, 2 key heads.
//
//	tp: the sums of o and down, B*L*D = 4736 each; the rows of the table, as many
//	sp: Lp = 38 (sp=2) or 40 (sp=4): q and the result B*Lp*64/sp each; k and v, at
//	    sp=2 B*Lp*16/sp each, at sp=4 with each head twice
func TestCollectives(t *testing.T) {
	r := models.Request{Batch: 2, Text: 37, DType: dtype.F32}
	modeltest.Moves(t, modeltest.Config(t, reasonDir), r, []modeltest.Move{
		{Program: "block", Want: ""},
		{On: "dp=2", Program: "block", Want: ""},
		{On: "tp=2", Program: "embed", Want: "all-reduce tp 1 4736"},
		{On: "tp=2", Program: "block", Want: "all-reduce tp 2 9472"},
		{On: "tp=8", Program: "block", Want: "all-reduce tp 2 9472"},
		{On: "sp=2", Program: "block", Want: "all-to-all sp 4 6080"},
		{On: "sp=4", Program: "block", Want: "all-to-all sp 4 3840"},
		{On: "tp=2,sp=2", Program: "block", Want: "all-reduce tp 2 4864; all-to-all sp 4 3648"},
		{On: "tp=2", Split: true, Program: "block", Want: "all-gather tp 2 4864; reduce-scatter tp 2 9728"},
		{On: "tp=2", Split: true, Program: "embed", Want: "reduce-scatter tp 1 4864"},
	})
}
