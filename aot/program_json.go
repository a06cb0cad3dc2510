package aot

import "encoding/json"

// unknownable are the figures of a Program that may be unknown, in the order of pairFigures.
type unknownable struct {
	Arguments       *int64   `json:"argument_bytes"`
	Outputs         *int64   `json:"output_bytes"`
	Temp            *int64   `json:"temp_bytes"`
	Alias           *int64   `json:"alias_bytes"`
	Code            *int64   `json:"code_bytes"`
	Peak            *int64   `json:"peak_bytes"`
	TotalAllocation *int64   `json:"total_allocation_bytes"`
	HostTemp        *int64   `json:"host_temp_bytes"`
	TotalBytes      *int64   `json:"total_bytes"`
	FLOPs           *int64   `json:"flops"`
	CompilerFLOPs   *float64 `json:"compiler_flops"`
}

// pairFigures pairs each of u with where p has it.
func (u *unknownable) pairFigures(p *Program) (asked []**int64, held []*int64) {
	return []**int64{&u.Arguments, &u.Outputs, &u.Temp, &u.Alias, &u.Code, &u.Peak, &u.TotalAllocation, &u.HostTemp, &u.TotalBytes, &u.FLOPs},
		[]*int64{&p.Arguments, &p.Outputs, &p.Temp, &p.Alias, &p.Code, &p.Peak, &p.TotalAllocation, &p.HostTemp, &p.TotalBytes, &p.FLOPs}
}

type plainProgram Program

// belowFigures embeds a Program's fields one level deeper than those of unknownable, so
// that package json takes unknownable's where both have a name.
type belowFigures struct{ *plainProgram }

// MarshalJSON writes null for a figure that is not known.
func (p Program) MarshalJSON() ([]byte, error) {
	doc := struct {
		belowFigures
		unknownable
	}{belowFigures: belowFigures{(*plainProgram)(&p)}}
	asked, held := doc.pairFigures(&p)
	for i, n := range held {
		if *n >= 0 {
			*asked[i] = n
		}
	}
	if p.CompilerFLOPs >= 0 {
		doc.unknownable.CompilerFLOPs = &p.CompilerFLOPs
	}
	return json.Marshal(doc)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (p *Program) UnmarshalJSON(b []byte) error {
	doc := struct {
		belowFigures
		unknownable
	}{belowFigures: belowFigures{(*plainProgram)(p)}}
	if err := json.Unmarshal(b, &doc); err != nil {
		return err
	}
	asked, held := doc.pairFigures(p)
	for i, n := range asked {
		if *held[i] = -1; *n != nil {
			*held[i] = **n
		}
	}
	if p.CompilerFLOPs = -1; doc.unknownable.CompilerFLOPs != nil {
		p.CompilerFLOPs = *doc.unknownable.CompilerFLOPs
	}
	return nil
}
