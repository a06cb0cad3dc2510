package checkpoint

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"weft/fault"
)

func TestHeaderSyntax(t *testing.T) {
	entry := func(fields string) string { return `{"a":{` + fields + `}}` }
	const rest = `"shape":[1],"data_offsets":[0,4]`
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for _, test := range []struct {
		name, header string
		kind         error
	}{
		{"plain", entry(`"dtype":"F32",` + rest), nil},
		{"spaces", " ", ErrHeaderSyntax},
		{"white space inside and after", "{ \"a\" : {\t\"dtype\":\r\n\"F32\"," + rest + "}\n}  \n", nil},
		{"white space before", ` {}`, ErrHeaderSyntax},
		{"escaped names", entry(`"\u0064type":"F\u00332",` + rest), nil},
		{"unknown field", entry(`"dtype":"F32",` + rest + `,"extra":{"x":[1,-2.5e3,null,true,"s"]}`), nil},
		{"unknown field with keys twice", entry(`"dtype":"F32",` + rest + `,"extra":{"x":1,"x":2}`), ErrHeaderSyntax},
		{"unknown field too deep", entry(`"dtype":"F32",` + rest + `,"extra":` + deep), ErrHeaderSyntax},
		{"field in another case", entry(`"DType":"F32",` + rest), ErrHeaderSyntax},
		{"field in two cases", entry(`"dtype":"F32","Dtype":"F16",` + rest), ErrHeaderSyntax},
		{"field twice", entry(`"dtype":"F32","dtype":"F32",` + rest), ErrHeaderSyntax},
		{"tensor twice", `{"a":{"dtype":"F32",` + rest + `},"a":{"dtype":"F32",` + rest + `}}`, ErrDuplicateTensor},
		{"tensor twice, once escaped", `{"a":{"dtype":"F32",` + rest + `},"\u0061":{"dtype":"F32",` + rest + `}}`, ErrDuplicateTensor},
		{"no dtype", entry(rest), ErrHeaderSyntax},
		{"no shape", entry(`"dtype":"F32","data_offsets":[0,4]`), ErrHeaderSyntax},
		{"no offsets", entry(`"dtype":"F32","shape":[1]`), ErrHeaderSyntax},
		{"dtype is a number", entry(`"dtype":32,` + rest), ErrHeaderSyntax},
		{"unknown dtype", entry(`"dtype":"F33",` + rest), ErrDType},
		{"dtype in lower case", entry(`"dtype":"f32",` + rest), ErrDType},
		{"one offset", entry(`"dtype":"F32","shape":[1],"data_offsets":[4]`), ErrHeaderSyntax},
		{"no offset", entry(`"dtype":"F32","shape":[1],"data_offsets":[]`), ErrHeaderSyntax},
		{"three offsets", entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4,4]`), ErrHeaderSyntax},
		{"offset with a fraction", entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4.0]`), ErrHeaderSyntax},
		{"offset with an exponent", entry(`"dtype":"F32","shape":[1],"data_offsets":[0,4e0]`), ErrHeaderSyntax},
		{"negative offset", entry(`"dtype":"F32","shape":[1],"data_offsets":[-4,0]`), ErrHeaderSyntax},
		{"offset of 2^63", entry(`"dtype":"F32","shape":[1],"data_offsets":[0,9223372036854775808]`), ErrHeaderSyntax},
		{"offset of 2^64", entry(`"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]`), ErrHeaderSyntax},
		{"negative dim", entry(`"dtype":"F32","shape":[-1],"data_offsets":[0,4]`), ErrHeaderSyntax},
		{"minus zero", entry(`"dtype":"F32","shape":[-0],"data_offsets":[0,0]`), ErrHeaderSyntax},
		{"leading zero", entry(`"dtype":"F32","shape":[01],"data_offsets":[0,4]`), ErrHeaderSyntax},
		{"dim is a string", entry(`"dtype":"F32","shape":["1"],"data_offsets":[0,4]`), ErrHeaderSyntax},
		{"dim is null", entry(`"dtype":"F32","shape":[null],"data_offsets":[0,4]`), ErrHeaderSyntax},
		{"shape is null", entry(`"dtype":"F32","shape":null,"data_offsets":[0,4]`), ErrHeaderSyntax},
		{"product of dims overflows", entry(`"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]`), ErrSizeOverflow},
		{"bytes overflow", entry(`"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]`), ErrSizeOverflow},
		{"huge dims but one is 0", entry(`"dtype":"F32","shape":[9223372036854775807,0],"data_offsets":[0,4]`), ErrSizeOverflow},
		{"half a byte", entry(`"dtype":"F4","shape":[7],"data_offsets":[0,4]`), ErrSizeMismatch},
		{"nibbles", entry(`"dtype":"F4","shape":[8],"data_offsets":[0,4]`), nil},
		{"sixes", entry(`"dtype":"F6_E3M2","shape":[2,2],"data_offsets":[0,3]`), ErrTrailingBytes}, // 3 of the 4 bytes
		{"metadata", `{"__metadata__":{"format":"pt","k\u00e9\ud83d\ude00":"\"\\\/\b\f\n\r\t"},"a":{"dtype":"F32",` + rest + `}}`, nil},
		{"metadata twice", `{"__metadata__":{},"__metadata__":{}}`, ErrDuplicateTensor},
		{"metadata key twice", `{"__metadata__":{"a":"1","a":"2"}}`, ErrHeaderSyntax},
		{"metadata is a number", `{"__metadata__":{"a":1}}`, ErrHeaderSyntax},
		{"metadata is an array", `{"__metadata__":[]}`, ErrHeaderSyntax},
		{"array", `[]`, ErrHeaderSyntax},
		{"null", `null`, ErrHeaderSyntax},
		{"something after", `{} {}`, ErrHeaderSyntax},
		{"zero byte after", "{}\x00", ErrHeaderSyntax},
		{"comma at the end", `{"a":{"dtype":"F32",` + rest + `},}`, ErrHeaderSyntax},
		{"no comma", `{"a":{"dtype":"F32" ` + rest + `}}`, ErrHeaderSyntax},
		{"cut", `{"a":{"dtype":"F32","shape":[1`, ErrHeaderSyntax},
		{"cut in a string", `{"a`, ErrHeaderSyntax},
		{"cut in an escape", `{"a\`, ErrHeaderSyntax},
		{"cut in a hex escape", `{"a\u00`, ErrHeaderSyntax},
		{"bad hex", `{"\u00g0":1}`, ErrHeaderSyntax},
		{"bad hex, a sign", `{"\u+123":1}`, ErrHeaderSyntax},
		{"bad escape", `{"\x41":1}`, ErrHeaderSyntax},
		{"lone surrogate", `{"\ud800":1}`, ErrHeaderSyntax},
		{"lone low surrogate", `{"\udc00":1}`, ErrHeaderSyntax},
		{"two high surrogates", `{"\ud800\ud800":1}`, ErrHeaderSyntax},
		{"bad UTF-8", "{\"\xff\":1}", ErrHeaderSyntax},
		{"surrogate in UTF-8", "{\"\xed\xa0\x80\":1}", ErrHeaderSyntax},
		{"overlong UTF-8", "{\"\xc0\x80\":1}", ErrHeaderSyntax},
		{"line feed in a string", "{\"a\nb\":1}", ErrHeaderSyntax},
		{"byte order mark", "\xef\xbb\xbf{}", ErrHeaderSyntax},
		{"single quotes", `{'a':1}`, ErrHeaderSyntax},
		{"comment", `{/* */}`, ErrHeaderSyntax},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := openBytes(t, fileBytes(test.header, 0, 0, 0, 0))
			if test.header == `{}` {
				t.Fatal("has no data")
			}
			if !errors.Is(err, test.kind) || test.kind == nil && err != nil {
				t.Fatalf("error %v, want %v", err, test.kind)
			}
			if f, ok := fault.Fields[Syntax](err); ok && (f.Offset < 0 || f.Offset > len(test.header) || f.Reason == "") {
				t.Errorf("%+v", f)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	c, err := openBytes(t, fileBytes(`{"__metadata__":{"format":"pt","k\u00e9\ud83d\ude00":"\"\\\/\b\f\n\r\t\u0001"}}`))
	if err != nil {
		t.Fatal(err)
	}
	if m := c.Metadata(); len(m) != 2 || m["format"] != "pt" || m["ké😀"] != "\"\\/\b\f\n\r\t\x01" {
		t.Errorf("%q", m)
	}
}

// A hostile header makes a bounded report.
func TestManyViolations(t *testing.T) {
	var sb strings.Builder
	sb.WriteByte('{')
	for i := range 5000 {
		if i > 0 {
			sb.WriteByte(',')
		}
		sb.WriteString(tensorJSON(fmt.Sprint("t", i), "F32", "[1]", 9, 3))
	}
	sb.WriteByte('}')
	_, err := openBytes(t, fileBytes(sb.String()))
	if n := len(fault.Violations(err)); n != maxViolations {
		t.Errorf("%d violations", n)
	}
}
