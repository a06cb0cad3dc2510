package all_test

import (
	"testing"

	"weft/models"
)

// Every family is declared as it must be, with all its layers. The first use of a family
// looks at one layer only.
func TestFamiliesAreDeclaredWell(t *testing.T) {
	if err := models.CheckFamilies(); err != nil {
		t.Error(err)
	}
}
