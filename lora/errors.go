package lora

import "weft/fault"

// The kinds of errors. The comment names the struct that errors of the kind carry.
var (
	// Keys whose module is no parameter of the model, or that nothing pairs with. [Keys]
	ErrKeys = fault.NewKind("lora-keys")
	// The adapter is another model's. [OtherModel]
	ErrOtherModel = fault.NewKind("lora-of-another-model")
	// Shapes that are not those of the parameter, or two ranks in one module. [Shape]
	ErrShape = fault.NewKind("lora-shape")
	// Some modules have an alpha and others lack theirs, or an alpha is no number. [Keys]
	ErrAlpha = fault.NewKind("lora-alpha")
	// The file is no LoRA that is merged here: LoHa, LoKr, DoRA, OFT. [Keys]
	ErrForm = fault.NewKind("lora-form")
)

// Keys lists keys of an adapter's file.
type Keys struct {
	File string   `json:"file"`
	Keys []string `json:"keys"`
}

// OtherModel says which model an adapter fits.
type OtherModel struct {
	File  string `json:"file"`
	Model string `json:"model"`
	Fits  int    `json:"fits"`  // modules of the file that fit the model
	Of    int    `json:"of"`    // modules of the file
	Other string `json:"other"` // the model that more of them fit
	More  int    `json:"more"`  // how many
}

// Shape has the shapes of a module's tensors beside that of the parameter.
type Shape struct {
	File      string `json:"file"`
	Module    string `json:"module"`
	Parameter string `json:"parameter"`
	Want      []int  `json:"want"`
	Down      []int  `json:"down,omitempty"`
	Up        []int  `json:"up,omitempty"`
	Diff      []int  `json:"diff,omitempty"`
}
