package checkpoint

import (
	"archive/zip"
	"bytes"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"weft/fault"
)

// foreignFormat is a file format that weft does not read: how to recognise it, and what
// to do with such a file instead.
type foreignFormat struct {
	name    string
	magic   []string // what the file begins with; any of them
	at      int      // where the magic is
	suffix  []string // of the file's name; any of them
	instead string
}

const takeSafetensors = "weft reads .safetensors and .pth: take the model's own release, or a repack in bf16, f16 or scaled fp8"

// foreignFormats are in the order in which they are tried. The first bytes are compared
// before the names, because a file can have a wrong name.
var foreignFormats = []foreignFormat{
	{"a GGUF file, whose weights are quantized in blocks", []string{"GGUF"}, 0, []string{".gguf"}, takeSafetensors},
	{"a GGML file", []string{"lmgg", "tjgg", "fmgg"}, 0, []string{".ggml"}, takeSafetensors},
	{"an HDF5 file", []string{"\x89HDF\r\n\x1a\n"}, 0, []string{".h5", ".hdf5", ".keras"}, takeSafetensors},
	{"a NumPy array", []string{"\x93NUMPY"}, 0, []string{".npy", ".npz"}, "save it with safetensors.numpy.save_file"},
	{"a TensorRT engine, compiled for one GPU", []string{"ftrt", "ptrt"}, 0, []string{".engine", ".plan", ".trt"}, takeSafetensors},
	{"a TensorFlow Lite file", []string{"TFL3"}, 4, []string{".tflite"}, takeSafetensors},
	{"a program (ELF)", []string{"\x7fELF"}, 0, []string{".so"}, takeSafetensors},
	{"a gzip archive", []string{"\x1f\x8b"}, 0, []string{".gz", ".tgz"}, "unpack it first"},
	{"a Zstandard archive", []string{"\x28\xb5\x2f\xfd"}, 0, []string{".zst"}, "unpack it first"},
	{"an XZ archive", []string{"\xfd7zXZ\x00"}, 0, []string{".xz"}, "unpack it first"},
	{"a bzip2 archive", []string{"BZh"}, 0, []string{".bz2"}, "unpack it first"},
	{"a 7z archive", []string{"7z\xbc\xaf\x27\x1c"}, 0, []string{".7z"}, "unpack it first"},
	{"a RAR archive", []string{"Rar!\x1a\x07"}, 0, []string{".rar"}, "unpack it first"},
	{"a tar archive (as the oldest torch saved)", []string{"ustar"}, 257, []string{".tar"}, "unpack it, or load it with torch and save the state dict again"},
	{"a web page", []string{"<!doctype", "<!DOCTYPE", "<html", "<HTML", "<head"}, 0, nil,
		"the download gave a page in place of the file: fetch it again, logged in where that is needed"},
	{"an XML document", []string{"<?xml", "<Error"}, 0, []string{".xml"}, "the download gave a message in place of the file: fetch it again"},
	{"a SentencePiece tokenizer", []string{"<pad>", "<unk>", "<s>"}, 4, nil, "it lies beside a text encoder: name the encoder's own file"},
	{"a JSON document", []string{"{", "["}, 0, nil, "a checkpoint's index ends in .index.json and has a weight_map: name that, or the file of tensors"},
	{"a file of torch from before 1.6", []string{"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46"}, 0, nil, "load it with torch and save it again, or save it as safetensors"},
	{"a Python pickle", []string{"\x80\x02", "\x80\x03", "\x80\x04", "\x80\x05"}, 0, []string{".pkl", ".pickle"}, "load it with what wrote it and save the tensors as safetensors"},
	{"a shard of a torch distributed checkpoint (DCP)", nil, 0, []string{".distcp"}, dcpInstead},
	{"an ONNX model", nil, 0, []string{".onnx"}, takeSafetensors},
	{"a Flax file (msgpack)", nil, 0, []string{".msgpack"}, takeSafetensors},
	{"a Core ML model", nil, 0, []string{".mlmodel", ".mlpackage", ".mlmodelc"}, takeSafetensors},
	{"a NeMo archive", nil, 0, []string{".nemo"}, "unpack it first"},
	{"a TensorFlow checkpoint", nil, 0, []string{".data-00000-of-00001", ".pb"}, takeSafetensors},
}

const dcpInstead = "join it with python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER out.pth"

// foreignFolders are checkpoints that are folders, by files in them.
var foreignFolders = []struct {
	name    string
	files   []string // globs; all must be there
	instead string
}{
	{"a torch distributed checkpoint (DCP)", []string{".metadata", "*.distcp"}, dcpInstead},
	{"a torch distributed checkpoint (DCP) without its .metadata", []string{"*.distcp"}, "fetch .metadata, then " + dcpInstead},
	{"an Orbax checkpoint", []string{"manifest.ocdbt"}, "restore it with orbax and save the arrays as safetensors"},
	{"an Orbax checkpoint", []string{"_METADATA"}, "restore it with orbax and save the arrays as safetensors"},
	{"an Orbax checkpoint", []string{"_CHECKPOINT_METADATA"}, "restore it with orbax and save the arrays as safetensors"},
	{"a DeepSpeed ZeRO checkpoint", []string{"*zero_pp_rank_*"}, "join it with DeepSpeed's zero_to_fp32.py"},
	{"a TensorFlow checkpoint", []string{"*.index", "*.data-*-of-*"}, takeSafetensors},
}

// Foreign is a file or folder of another format, and what works in its place.
type Foreign struct {
	File    string `json:"file"`
	Format  string `json:"format"`
	Instead string `json:"instead"`
}

func foreignFault(file, format, instead string) error {
	return fault.New(ErrForeignFormat, Foreign{file, format, instead}, "%s is %s; %s", file, format, instead)
}

// refuseForeignFile gives an error that names the format of a file by its first bytes
// or else by its name. It is called when the first bytes are not those of the expected
// format; nil means that the format is not known.
func refuseForeignFile(head []byte, r io.ReaderAt, size int64, file string) error {
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) {
		if err := refuseForeignName(file); err != nil {
			return err
		}
		return refuseZip(r, size, file)
	}
	for _, f := range foreignFormats {
		if len(head) > f.at && slices.ContainsFunc(f.magic, func(m string) bool { return bytes.HasPrefix(head[f.at:], []byte(m)) }) {
			return foreignFault(file, f.name, f.instead)
		}
	}
	if err := refuseForeignName(file); err != nil {
		return err
	}
	switch {
	case len(head) >= 64 && len(bytes.Trim(head, "\x00")) == 0:
		return foreignFault(file, "a file of zeros, as an unfinished download leaves", "fetch it again")
	case len(head) >= 8 && isText(head):
		return foreignFault(file, "a text", "where it was downloaded, it is the message of why it failed: read it, and fetch the file again")
	}
	return nil
}

// refuseForeignName gives an error that names the format of a file by the ending of its
// name; nil means that the format is not known.
func refuseForeignName(file string) error {
	for _, f := range foreignFormats {
		if slices.ContainsFunc(f.suffix, func(s string) bool { return strings.HasSuffix(strings.ToLower(file), s) }) {
			return foreignFault(file, f.name, f.instead)
		}
	}
	return nil
}

// isText says whether bytes are printable ASCII.
func isText(b []byte) bool {
	return !slices.ContainsFunc(b, func(c byte) bool { return (c < 0x20 || c > 0x7e) && c != '\n' && c != '\r' && c != '\t' })
}

// maxListed bounds the entries of a zip that are looked at to find out what it holds.
const maxListed = 10000

// refuseZip gives an error that says what a zip holds. It is called for a zip whose name
// is not that of a .pth file, or which pth.Read refused; nil means that torch.save wrote
// it.
func refuseZip(r io.ReaderAt, size int64, file string) error {
	const archive = "a zip archive"
	z, err := zip.NewReader(r, size)
	if err != nil {
		return foreignFault(file, "a zip archive that is cut short", "fetch it again")
	}
	for _, f := range z.File[:min(len(z.File), maxListed)] {
		switch base := filepath.Base(f.Name); {
		case base == "constants.pkl":
			return foreignFault(file, "a TorchScript program", "load it with torch.jit.load and save its state_dict()")
		case base == "data.pkl" && filepath.Ext(file) == weightsSuffix:
			return foreignFault(file, "a file that torch.save wrote", "rename it so that it ends in .pth")
		case base == "data.pkl":
			return nil
		case filepath.Ext(base) == weightsSuffix, slices.Contains(torchSuffixes, filepath.Ext(base)):
			return foreignFault(file, archive+" that holds "+base, "unpack it first")
		case filepath.Ext(base) == ".npy":
			return foreignFault(file, "an archive of NumPy arrays", "save them with safetensors.numpy.save_file")
		}
	}
	return foreignFault(file, archive, "unpack it first")
}

// refuseForeignFolder gives an error that names the format of a folder in which weft
// found no checkpoint of its own; nil means that the format is not known.
func refuseForeignFolder(dir string, names []string) error {
	for _, f := range foreignFolders {
		if !slices.ContainsFunc(f.files, func(glob string) bool {
			return !slices.ContainsFunc(names, func(n string) bool { ok, _ := filepath.Match(glob, n); return ok })
		}) {
			return foreignFault(dir, f.name, f.instead)
		}
	}
	for _, n := range names {
		if err := refuseForeignName(filepath.Join(dir, n)); err != nil {
			return err
		}
	}
	return nil
}
