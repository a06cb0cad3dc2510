//go:build !linux

package userfile

import "errors"

func exchange(string, string) error { return errors.ErrUnsupported }
