package checkpoint

import (
	"fmt"

	"weft/checkpoint/pth"
	"weft/fault"
	"weft/internal/userfile"
)

// The kinds of errors of this package. The comment says when each is returned
// and names the struct that errors of the kind carry.
var (
	// The path leads to nothing that holds tensors. [Path]
	ErrNotCheckpoint = fault.NewKind("not-a-checkpoint")
	// A folder has several checkpoints and no rule prefers one. [Candidates]
	ErrAmbiguous = fault.NewKind("ambiguous-checkpoint")
	// The file is a Git LFS pointer: its content was never fetched. [LFSPointer]
	ErrLFSPointer = fault.NewKind("lfs-pointer")
	// The file is shorter than the 8 bytes of the header's length. [Header]
	ErrHeaderTooSmall = fault.NewKind("header-too-small")
	// The header's length is beyond the format's limit. [Header]
	ErrHeaderTooLarge = fault.NewKind("header-too-large")
	// The header's length is beyond the end of the file. [Header]
	ErrHeaderTruncated = fault.NewKind("header-truncated")
	// The header is not the JSON that the format asks for. [Syntax]
	ErrHeaderSyntax = fault.NewKind("header-syntax")
	// Two tensors have one name, in a file or after a prefix is stripped. [Tensor]
	ErrDuplicateTensor = fault.NewKind("duplicate-tensor")
	// Data offsets overlap, leave a gap or run backwards. [Offsets]
	ErrOffsets = fault.NewKind("offsets")
	// The file ends before the last tensor does. [Extent]
	ErrTruncated = pth.ErrTruncated
	// The file goes on after the last tensor. [Extent]
	ErrTrailingBytes = pth.ErrTrailingBytes
	// The file or folder is of another format, which is named. [Foreign]
	ErrForeignFormat = fault.NewKind("foreign-format")
	// The weights are quantized in a way that weft does not take apart. [Quantized]
	ErrQuantized = fault.NewKind("unsupported-quantization")
	// The tensors are an adapter's (LoRA), to be added to a model's. [Quantized]
	ErrAdapter = fault.NewKind("adapter")
	// Tensors to load whole are larger than this machine's memory. [Memory]
	ErrMemory = fault.NewKind("beyond-memory")
	// Shape and dtype do not give the number of bytes that the offsets span. [SizeMismatch]
	ErrSizeMismatch = fault.NewKind("size-mismatch")
	// A shape's number of elements or bytes does not fit 63 bits. [Shape]
	ErrSizeOverflow = fault.NewKind("size-overflow")
	// A dtype is unknown, or known but not readable here. [DType]
	ErrDType = fault.NewKind("dtype")
	// The index names files that are not there. [MissingShard]
	ErrMissingShard = fault.NewKind("missing-shard")
	// The index is not the JSON it should be. [Syntax]
	ErrIndexSyntax = fault.NewKind("index-syntax")
	// The index and the shards disagree on where a tensor is. [IndexMismatch]
	ErrIndexMismatch = fault.NewKind("index-mismatch")
	// The index names a shard outside its own folder. [PathEscape]
	ErrPathEscape = fault.NewKind("path-escape")
	// Most keys have a prefix that a few lack. [MixedPrefix]
	ErrMixedPrefix = fault.NewKind("mixed-prefix")
	// A scale exists that would not be applied. [Scale]
	ErrUnappliedScale = fault.NewKind("unapplied-scale")
	// A weight has its scale under both spellings. [Scale]
	ErrTwoScales = fault.NewKind("two-scales")
	// Two names that stand for one tensor hold different data. [Tied]
	ErrTiedMismatch = fault.NewKind("tied-mismatch")
	// Tensors that are needed are not in the checkpoint. [Tensors]
	ErrMissingTensors = fault.NewKind("missing-tensors")
	// Tensors in the checkpoint are used by nothing. [Tensors]
	ErrUnexpectedTensors = fault.NewKind("unexpected-tensors")
	// A tensor has another shape than the one needed. [Shape]
	ErrShape = fault.NewKind("shape")
	// A slice lies outside its tensor or is not in order. [Slice]
	ErrSlice = fault.NewKind("slice")
	// A destination has the wrong number of bytes. [SizeMismatch]
	ErrDestination = fault.NewKind("destination")
	// There is no conversion between two dtypes. [Conversion]
	ErrConversion = fault.NewKind("conversion")
	// A value does not fit the integer type asked for. [OutOfRange]
	ErrRange = fault.NewKind("out-of-range")
	// A file is not what was opened: shorter, written to or replaced. [FileChanged]
	ErrFileChanged = fault.NewKind("file-changed")
	// A tensor's strides are no layout that weft can read. [Strides]
	ErrStrides = fault.NewKind("strides")
	// The file to write is already there. [Path]
	ErrExists = userfile.ErrExists
	// A tensor to write has no legal name. [Tensor]
	ErrName = fault.NewKind("tensor-name")
)

// Path is a file or folder that an error is about.
type Path = userfile.Path

// Candidates lists the checkpoints of a folder.
type Candidates struct {
	Path       string   `json:"path"`
	Candidates []string `json:"candidates"`
}

// LFSPointer is a pointer file and the size of the content it stands for.
type LFSPointer struct {
	File string `json:"file"`
	Size int64  `json:"size"`
}

// Header gives a header's size: Need bytes were announced or are the least, Have are in the file.
type Header struct {
	File  string `json:"file"`
	Need  uint64 `json:"need"`
	Have  int64  `json:"have"`
	Limit int64  `json:"limit,omitempty"`
}

// Syntax points at a byte of a header or index. Tensor is set where one is being read.
type Syntax struct {
	File   string `json:"file"`
	Offset int    `json:"offset"`
	Tensor string `json:"tensor,omitempty"`
	Reason string `json:"reason"`
}

// Tensor names one tensor of a file.
type Tensor struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
}

// Offsets is a byte range of a file's data and where it should have begun or ended.
type Offsets struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	Begin  int64  `json:"begin"`
	End    int64  `json:"end"`
	Want   int64  `json:"want"`
}

// Extent is a file's size in bytes and the size that its tensors give it.
type Extent = pth.Extent

// Memory is what tensors need in bytes, and what there is.
type Memory struct {
	File    string   `json:"file"`
	Tensors []string `json:"tensors"`
	Need    int64    `json:"need"`
	Have    int64    `json:"have"`
}

// SizeMismatch compares two byte counts of one tensor.
type SizeMismatch struct {
	File   string `json:"file,omitempty"`
	Tensor string `json:"tensor"`
	Want   int64  `json:"want"`
	Have   int64  `json:"have"`
}

// Shape compares two shapes of one tensor; Want is empty where only one is at fault.
type Shape struct {
	File   string `json:"file,omitempty"`
	Tensor string `json:"tensor"`
	Want   []int  `json:"want,omitempty"`
	Have   []int  `json:"have"`
}

// DType names a dtype as the header spells it.
type DType struct {
	File   string `json:"file"`
	Tensor string `json:"tensor"`
	DType  string `json:"dtype"`
}

// MissingShard lists every absent file of an index and every tensor in them.
type MissingShard struct {
	Index   string   `json:"index"`
	Shards  []string `json:"shards"`
	Tensors []string `json:"tensors"`
}

// IndexMismatch is a tensor that the index puts in Shard and the files in Found.
type IndexMismatch struct {
	Index  string   `json:"index"`
	Tensor string   `json:"tensor"`
	Shard  string   `json:"shard"`
	Found  []string `json:"found"`
}

// PathEscape is a shard's name that is no plain file name.
type PathEscape struct {
	Index string `json:"index"`
	Shard string `json:"shard"`
}

// MixedPrefix lists the keys that lack the prefix which the others have.
type MixedPrefix struct {
	Prefix string   `json:"prefix"`
	Keys   []string `json:"keys"`
}

// Scale is a weight and the tensors that scale it.
type Scale struct {
	Tensor string   `json:"tensor"`
	Scales []string `json:"scales"`
}

// Tied lists the names of what should be one tensor.
type Tied struct {
	Tensors []string `json:"tensors"`
}

// Tensors is a list of names.
type Tensors struct {
	Tensors []string `json:"tensors"`
}

// Slice is a range asked of a dim. Dim is -1 where the number of dims is at fault.
type Slice struct {
	Tensor string `json:"tensor"`
	Dim    int    `json:"dim"`
	Lo     int    `json:"lo"`
	Hi     int    `json:"hi"`
	Size   int    `json:"size"`
}

// Conversion is a pair of dtypes.
type Conversion struct {
	Tensor string `json:"tensor"`
	From   string `json:"from"`
	To     string `json:"to"`
}

// OutOfRange is a value and the integer type that cannot hold it.
type OutOfRange struct {
	Tensor string `json:"tensor"`
	Value  string `json:"value"`
	To     string `json:"to"`
}

// FileChanged is a file that ended before byte Need, or that differs in another way, Change,
// from what was opened. Tensor is one that is in it.
type FileChanged struct {
	File   string `json:"file"`
	Need   int64  `json:"need"`
	Tensor string `json:"tensor,omitempty"`
	Change string `json:"change,omitempty"`
}

// Strides is a tensor's layout, in elements.
type Strides struct {
	File    string `json:"file"`
	Tensor  string `json:"tensor"`
	Shape   []int  `json:"shape"`
	Strides []int  `json:"strides"`
}

// maxViolations bounds the errors reported on one file: a damaged header can hold a million.
const maxViolations = 1000

// plural gives "1 tensor", "2 tensors".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shapeText prints a shape as "[2 3]".
func shapeText(shape []int) string { return fmt.Sprint(shape) }
