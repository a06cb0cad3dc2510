//go:build !linux

package userfile

import (
	"errors"
	"os"
)

func openUnnamed(string) *os.File { return nil }

func nameFile(*os.File, string) error { return errors.ErrUnsupported }
