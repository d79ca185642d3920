package webhook

import (
	"crypto/rand"
	"crypto/rsa"
	"strings"
	"testing"
	"time"

	"github.com/certplane/certplane/internal/pki"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		reason string
		change func(*Settings)
		want   string
	}{
		{"in order", func(*Settings) {}, ""},
		{"a token alone", func(s *Settings) { s.CertFile, s.KeyFile, s.TokenFile = "", "", "f" }, ""},
		{"no address", func(s *Settings) { s.URL = "" }, "w.url: is missing"},
		{"http", func(s *Settings) { s.URL = "http://localhost/sign" }, `w.url: "http://localhost/sign" must begin with https://`},
		{"no scheme", func(s *Settings) { s.URL = "ca.example.com/sign" }, "must begin with https://"},
		{"no host", func(s *Settings) { s.URL = "https:///sign" }, "has no host"},
		{"a password", func(s *Settings) { s.URL = "https://me:s3cr3t@ca.example.com" }, "w.url: must not have a user or a password"},
		{"a query", func(s *Settings) { s.URL = "https://ca.example.com/?code=s3cr3t" }, "w.url: must not have a query"},
		{"a fragment", func(s *Settings) { s.URL = "https://ca.example.com/#s3cr3t" }, "w.url: must not have a query or a fragment"},
		{"garbage", func(s *Settings) { s.URL = "https://s3cr3t\x7f" }, "w.url: is not a URL"},
		{"half a pair", func(s *Settings) { s.KeyFile = "" }, "w.certFile and w.keyFile: set both or none"},
		{"no credentials", func(s *Settings) { s.CertFile, s.KeyFile = "", "" }, "w: set certFile and keyFile, or tokenFile"},
		{"a long timeout", func(s *Settings) { s.Timeout.Duration = time.Minute }, "w.timeout: 1m0s is out of range"},
		{"a negative timeout", func(s *Settings) { s.Timeout.Duration = -1 }, "w.timeout: "},
		{"many retries", func(s *Settings) { s.Retries = new(6) }, "w.retries: 6 is out of range"},
		{"negative retries", func(s *Settings) { s.Retries = new(-1) }, "w.retries: -1 is out of range"},
		{"no retries", func(s *Settings) { s.Retries = new(0) }, ""},
		{"short certificates", func(s *Settings) { s.MaxDuration.Duration = time.Second }, "w.maxDuration: 1s is too short"},
		{"negative concurrency", func(s *Settings) { s.Concurrency = -1 }, "w.concurrency: -1 must be at least 1"},
	}
	for _, tc := range tests {
		t.Run(tc.reason, func(t *testing.T) {
			s := Settings{SignerName: "example.com/a", URL: "https://ca.example.com/sign", CertFile: "c", KeyFile: "k"}
			tc.change(&s)
			err := s.Validate("w")
			switch {
			case err == nil && tc.want != "", err != nil && (tc.want == "" || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("error %v, want %q", err, tc.want)
			case err != nil && strings.Contains(err.Error(), "s3cr3t"):
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	all := []Settings{{SignerName: "example.com/*"}, {SignerName: "example.com/a"}, {SignerName: "b.example.com/b"}}
	tests := []struct {
		signerName string
		want       int
	}{
		{"example.com/a", 1},
		{"example.com/b", 0},
		{"b.example.com/b", 2},
		{"b.example.com/a", -1},
		{"kubernetes.io/kube-apiserver-client", -1},
		{"", -1},
	}
	for _, tc := range tests {
		if got := Choose(all, tc.signerName); got != tc.want {
			t.Errorf("%q goes to %d, want %d", tc.signerName, got, tc.want)
		}
	}
}

// smallRSA is a request with a key that is smaller than is allowed.
func smallRSA(t *testing.T) *pki.Request {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	data, err := pki.NewRequest(pki.Subject{CommonName: "small"}, key)
	if err != nil {
		t.Fatal(err)
	}
	req, err := pki.ParseRequest(data)
	if err != nil {
		t.Fatal(err)
	}
	return req
}
