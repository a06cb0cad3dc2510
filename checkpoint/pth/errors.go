package pth

import "weft/fault"

// The kinds of errors of this package.
var (
	// The file is no zip made by torch.save. [File]
	ErrFormat = fault.NewKind("pth-format")
	// The pickle cannot be interpreted. [Pickle]
	ErrPickle = fault.NewKind("pth-pickle")
	// The pickle holds no state dict, or several. [Dicts]
	ErrStateDict = fault.NewKind("pth-state-dict")
	// Shape, strides and offset reach past the storage. [Bounds]
	ErrStorageBounds = fault.NewKind("storage-bounds")
)

// File is the file that an error is about.
type File struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Pickle points at an instruction.
type Pickle struct {
	File   string `json:"file"`
	Offset int    `json:"offset"`
	Reason string `json:"reason"`
}

// Dicts lists the keys under which tensors were found.
type Dicts struct {
	File string   `json:"file"`
	Keys []string `json:"keys"`
}

// Bounds is a tensor and the bytes that it needs and its storage has.
type Bounds struct {
	File    string `json:"file"`
	Tensor  string `json:"tensor"`
	Shape   []int  `json:"shape"`
	Strides []int  `json:"strides"`
	Offset  int64  `json:"offset"`
	Need    int64  `json:"need"`
	Have    int64  `json:"have"`
}

func format(file, reason string) error {
	return fault.New(ErrFormat, File{file, reason}, "%s: %s", file, reason)
}
