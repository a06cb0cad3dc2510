package service

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weft/fault"
)

const (
	annToken = "ann-token-0123456789abcdef"
	bobToken = "bob-token-0123456789abcdef"
	opsToken = "ops-token-0123456789abcdef"
)

func testTokens(t testing.TB) *Tokens {
	t.Helper()
	sum := sha256.Sum256([]byte(bobToken))
	path := filepath.Join(t.TempDir(), "tokens")
	text := "# who may ask\nann " + annToken + "\n\nbob sha256:" + hex.EncodeToString(sum[:]) + "\nops " + opsToken + " operator\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := ReadTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestTokensAreFound(t *testing.T) {
	tokens := testTokens(t)
	for _, c := range []struct {
		header   string
		owner    string
		operator bool
	}{
		{"Bearer " + annToken, "ann", false}, {"bearer " + bobToken, "bob", false}, {"Bearer  " + opsToken, "ops", true},
		{"Bearer " + annToken + "x", "", false}, {"Bearer " + annToken[:25], "", false}, {"Bearer", "", false}, {"Basic " + annToken, "", false}, {"", "", false},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		found := tokens.ofRequest(r)
		if owner := ownerOfToken(found); owner != c.owner || found != nil && found.operator != c.operator {
			t.Errorf("%q: %q", c.header, owner)
		}
		if found == nil {
			continue
		}
		byCookie := httptest.NewRequest(http.MethodGet, "/", nil)
		byCookie.AddCookie(&http.Cookie{Name: sessionCookie, Value: found.cookie()})
		if again := tokens.ofRequest(byCookie); again != found {
			t.Errorf("%q: its cookie is %q's", c.header, ownerOfToken(again))
		}
		secret := strings.Fields(c.header)[1]
		byCookie = httptest.NewRequest(http.MethodGet, "/", nil)
		byCookie.AddCookie(&http.Cookie{Name: sessionCookie, Value: secret})
		if tokens.ofRequest(byCookie) != nil {
			t.Error("a token is no cookie")
		}
	}
}

func ownerOfToken(t *token) string {
	if t == nil {
		return ""
	}
	return t.owner
}

func TestTokenFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		text       string
		violations int
	}{
		{"", 1}, {"# none\n", 1}, {annToken + "\n", 1}, {"ann short\n", 1}, {"ann " + annToken + " boss\n", 1}, {"a/b " + annToken, 1},
		{"ann sha256:00\n", 1}, {"ann " + annToken + "\nbob " + annToken + "\n", 1}, {"a b\n../c d\nann \x01aaaaaaaaaaaaaaaaaaaaaaa\n", 4},
	} {
		_, err := parseTokens("tokens", []byte(c.text))
		if n := len(fault.Violations(err)); n != c.violations {
			t.Errorf("%q: %d violations: %v", c.text, n, err)
		}
		if err != nil && strings.Contains(err.Error(), annToken) {
			t.Errorf("the message tells the token: %v", err)
		}
	}
}
