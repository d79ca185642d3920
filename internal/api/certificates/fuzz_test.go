package certificates

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/certplane/certplane/internal/pki"
)

// Accepted requests can be parsed and verified again, and all refusals have the
// same form.
func FuzzValidateRequest(f *testing.F) {
	request := newRequest(f, pki.Subject{CommonName: "alice", Organizations: []string{"o"}, DNSNames: []string{"a.example.com"}})
	f.Add(request)
	f.Add(request[:len(request)/2])
	f.Add(append([]byte("text\n"), request...))
	f.Add(bytes.ReplaceAll(request, []byte("CERTIFICATE REQUEST"), []byte("NEW CERTIFICATE REQUEST")))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n"))
	f.Add([]byte(strings.Repeat("-----BEGIN ", 1000)))
	f.Add([]byte(nil))

	f.Fuzz(func(t *testing.T, data []byte) {
		errs := validateRequest(data, nil, field.NewPath("spec", "request"))
		switch len(errs) {
		case 0:
			parsed, err := pki.ParseRequest(data)
			if err != nil {
				t.Fatalf("accepted, but does not parse: %v", err)
			}
			if err := pki.VerifyRequest(parsed.CertificateRequest); err != nil {
				t.Fatalf("accepted, but does not verify: %v", err)
			}
		case 1:
			if errs[0].Type != field.ErrorTypeInvalid || errs[0].Field != "spec.request" || errs[0].Detail == "" {
				t.Fatalf("refused with %#v", errs[0])
			}
		default:
			t.Fatalf("%d errors about one field", len(errs))
		}
	})
}

// Accepted data is empty, or has certificates and no other blocks.
func FuzzValidateCertificate(f *testing.F) {
	der := newCertificate(f)
	f.Add(chain(f))
	f.Add(block("CERTIFICATE", der))
	f.Add(block("CERTIFICATE", der[:len(der)-1]))
	f.Add(block("CERTIFICATE REQUEST", der))
	f.Add(append(block("CERTIFICATE", der), "-----BEGIN CERTIFICATE-----\n*\n-----END CERTIFICATE-----\n"...))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nA: b\n\nMA==\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n"))
	f.Add([]byte("text"))
	f.Add([]byte(nil))

	f.Fuzz(func(t *testing.T, data []byte) {
		errs := validateCertificate(data, field.NewPath("status", "certificate"))
		for _, err := range errs {
			if err.BadValue != "<certificate data>" {
				t.Fatalf("the error repeats the data: %v", err)
			}
		}
		if len(errs) > 0 || len(data) == 0 {
			return
		}
		if !bytes.Contains(data, []byte("-----BEGIN CERTIFICATE-----")) {
			t.Fatalf("accepted %q, which has no certificate", data)
		}
		if text := append([]byte("explanation\n"), data...); checkCertificate(text) != nil {
			t.Fatal("text before the first block makes a difference")
		}
	})
}

// An accepted name is a domain and a path that fit into a resource name.
func FuzzValidateSignerName(f *testing.F) {
	for _, name := range []string{
		"", "/", "example.com/signer", "example.com/a.b", "example/signer", "a.b/c/d", "A.b/c", "a.b/*", "a..b/c", "a.b/",
		"kubernetes.io/legacy-unknown", "a.b/" + strings.Repeat("c", 600), strings.Repeat("d.", 130) + "e/f", "ä.b/c",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		errs := ValidateSignerName(field.NewPath("spec", "signerName"), name)
		if len(errs) > 0 {
			return
		}
		domain, path, ok := strings.Cut(name, "/")
		if !ok || path == "" || strings.Contains(path, "/") || !strings.Contains(domain, ".") {
			t.Fatalf("accepted %q", name)
		}
		if len(domain) > 253 || len(name) > 571 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-./") != "" {
			t.Fatalf("accepted %q", name)
		}
	})
}
