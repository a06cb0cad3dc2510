package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// everyCommand visits weft's commands and theirs.
func everyCommand(c *cobra.Command, visit func(*cobra.Command)) {
	visit(c)
	for _, sub := range c.Commands() {
		everyCommand(sub, visit)
	}
}

// Every flag with a fraction refuses what is no finite number, also one that is added later.
func TestNumbersOfFlagsAreFinite(t *testing.T) {
	found := 0
	everyCommand((&app{}).rootCommand(), func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) {
			switch f.Value.Type() {
			case "float32", "float64", "float32Slice", "float64Slice":
				t.Errorf("%s --%s is not a finiteFlag", c.CommandPath(), f.Name)
			case "float":
				found++
				for _, text := range []string{"nan", "NaN", "inf", "-Inf", "+infinity", "1e999", "", "five", "1,5"} {
					code, stdout, stderr := weftRun(t, append(strings.Fields(c.CommandPath())[1:], "--"+f.Name+"="+text)...)
					if code != 2 || stdout != "" || !strings.Contains(stderr, "finite number") || !strings.Contains(stderr, "--"+f.Name) {
						t.Errorf("%s --%s=%s: exit %d, %q, %q", c.CommandPath(), f.Name, text, code, stdout, stderr)
					}
				}
			}
		})
	})
	if found == 0 {
		t.Error("there is no such flag")
	}
}
