package pth

import "weft/fault"

// The kinds of errors of this package.
var (
	// The file is no zip, or one that was not made by torch.save. [File]
	ErrFormat = fault.NewKind("pth-format")
	// The file is no zip at all, or its end is missing. [File]
	ErrNotZip = fault.NewKind("pth-not-a-zip")
	// The file ends before its entries do. [Extent]
	ErrTruncated = fault.NewKind("truncated")
	// The file goes on after its end. [Extent]
	ErrTrailingBytes = fault.NewKind("trailing-bytes")
	// The file is what torch wrote before 1.6. [File]
	ErrLegacy = fault.NewKind("pth-legacy")
	// The file's numbers are big-endian. [File]
	ErrByteOrder = fault.NewKind("pth-byte-order")
	// The pickle cannot be interpreted. [Pickle]
	ErrPickle = fault.NewKind("pth-pickle")
	// The pickle is larger than its file or any model explains. [Limit]
	ErrLimit = fault.NewKind("pth-limit")
	// The pickle refers to functions or classes that no state dict needs. [References]
	ErrReference = fault.NewKind("pth-reference")
	// The pickle holds no state dict, or several. [Dicts]
	ErrStateDict = fault.NewKind("pth-state-dict")
	// A key of the state dict is no text. [Value]
	ErrKey = fault.NewKind("pth-key")
	// A value of the state dict is a tensor of a kind that weft does not read:
	// quantized, sparse, meta, a subclass, a NumPy array. [Value]
	ErrTensorKind = fault.NewKind("pth-tensor-kind")
	// A tensor's storage has a type that is not known. [Value]
	ErrStorageType = fault.NewKind("pth-storage-type")
	// A tensor's storage is not in the file. [Value]
	ErrMissingStorage = fault.NewKind("pth-missing-storage")
	// A tensor's storage cannot be read where it lies. [Value]
	ErrStorage = fault.NewKind("pth-storage")
	// Shape, strides and offset reach past the storage. [Bounds]
	ErrStorageBounds = fault.NewKind("storage-bounds")
)

// File is the file that an error is about.
type File struct {
	File   string `json:"file"`
	Reason string `json:"reason"`
}

// Extent is a file's size in bytes and the size that its content gives it. Tensor is
// the last one, or the first that is incomplete, where that is known.
type Extent struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	Need   int64  `json:"need"`
	Have   int64  `json:"have"`
}

// Pickle points at an instruction.
type Pickle struct {
	File   string `json:"file"`
	Offset int    `json:"offset"`
	Reason string `json:"reason"`
}

// Limit is a count of a pickle and the most that it may be.
type Limit struct {
	File  string `json:"file"`
	What  string `json:"what"`
	Have  int64  `json:"have"`
	Limit int64  `json:"limit"`
}

// References lists the functions and classes that a pickle refers to and that are not in
// this package's list, as "module.name".
type References struct {
	File       string   `json:"file"`
	References []string `json:"references"`
}

// Value is a value of a state dict and what it is.
type Value struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	Is     string `json:"is"`
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

// newFileFault makes an error that gives a file and a reason.
func newFileFault(kind *fault.Kind, file, reason string) error {
	return fault.New(kind, File{file, reason}, "%s: %s", file, reason)
}
