package main

import (
	"github.com/spf13/cobra"

	"weft/xla/plugin"
)

func (a *app) engineCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "engine",
		Short: "Fetch and find the XLA plugins that run programs",
		Long: `An engine is a PJRT plugin: one shared library, taken from a pinned Python wheel
through pip and checked against its SHA-256. The cpu engine is fetched by itself
at first use. WEFT_ENGINE_DIR names another folder for engines, WEFT_PLUGIN
another plugin file.`,
		Example: `  weft engine install cpu
  weft engine list
  weft engine path cpu`,
	}
	c.AddCommand(a.engineInstall(), a.engineList(), a.enginePath())
	return c
}

func engineNames() []string {
	names := []string{}
	for _, p := range plugin.Pins() {
		names = append(names, p.Name)
	}
	return names
}

func (a *app) engineInstall() *cobra.Command {
	return &cobra.Command{
		Use:               "install NAME",
		Short:             "Fetch an engine, check its hash and unpack it",
		Example:           "  weft engine install cpu",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(engineNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			i, err := plugin.Install(cmd.Context(), args[0], plugin.Options{Progress: a.showFetchProgress})
			if err != nil {
				return err
			}
			return a.printResult(i, func() {
				a.say("%s %s (PJRT API %s)", i.Name, i.Version, i.API)
				a.say("%s", i.Path)
			})
		},
	}
}

func (a *app) engineList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the engines weft knows and those that are here",
		Example: "  weft engine list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			type line struct {
				plugin.Installed
				Here bool   `json:"installed"`
				Note string `json:"note"`
			}
			here := map[string]plugin.Installed{}
			for _, i := range plugin.List() {
				here[i.Name+" "+i.Version] = i
			}
			lines := []line{}
			for _, p := range plugin.Pins() {
				i, ok := here[p.Name+" "+p.Version]
				if !ok {
					i = plugin.Installed{Name: p.Name, Version: p.Version, API: p.API}
				}
				lines = append(lines, line{i, ok, p.Note})
			}
			return a.printResult(struct {
				Engines []line `json:"engines"`
			}{lines}, func() {
				for _, l := range lines {
					state := "not installed"
					if l.Here {
						state = l.Path
					}
					a.say("%-12s %-10s PJRT %-6s %s", l.Name, l.Version, l.API, state)
				}
			})
		},
	}
}

func (a *app) enginePath() *cobra.Command {
	return &cobra.Command{
		Use:               "path NAME",
		Short:             "Print where an installed engine's library is",
		Example:           "  weft engine path cpu",
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: cobra.FixedCompletions(engineNames(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(_ *cobra.Command, args []string) error {
			i, err := plugin.Get(args[0])
			if err != nil {
				return err
			}
			return a.printResult(i, func() { a.say("%s", i.Path) })
		},
	}
}
