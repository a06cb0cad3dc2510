package wan_test

import (
	"testing"

	"weft/internal/modeltest"
)

func TestPeerSpecsEqualTheOracleLeafByLeaf(t *testing.T) {
	for _, name := range []string{"wan2.1-t2v-1.3b", "wan2.1-t2v-14b", "wan2.1-i2v-14b", "wan2.2-ti2v-5b", "wan2.2-t2v-a14b", "wan2.2-i2v-a14b"} {
		modeltest.Oracle(t, name, "../../testdata/oracle/"+name+".json")
	}
}
