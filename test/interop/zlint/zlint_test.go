package zlint

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	zcrypto "github.com/zmap/zcrypto/x509"
	"github.com/zmap/zlint/v3"
	"github.com/zmap/zlint/v3/lint"

	"github.com/certplane/certplane/internal/pki"
)

// sources are the sources of lints that apply to certificates of every PKI. Other sources
// contain requirements of browsers and their forum (CABF_BR, CABF_CS_BR, CABF_SMIME_BR,
// CABF_EV, Mozilla, Apple, Chrome) or the European Union (ETSI_ESI) for publicly trusted
// CAs, or apply to logs of certificates (RFC6962) and OCSP responders (RFC6960).
var sources = lint.SourceList{lint.RFC3279, lint.RFC5280, lint.RFC5480, lint.RFC5891, lint.RFC8813, lint.Community}

// excluded are lints of these sources that certificates of certplane may fail,
// and why. Each of them fails in a test below, so that a needless exclusion is
// found.
var excluded = map[string]string{
	"e_ecdsa_allowed_ku":                               "kubelets and other clients ask for key encipherment with keys of all types, and the CSR API gives what was approved",
	"e_rsa_allowed_ku_ee":                              "requesters may ask for usages that RFC 3279 has no sense for with their key, and the CSR API gives what was approved",
	"e_ext_authority_key_identifier_no_key_identifier": "a self-signed certificate has the subject's key identifier, which is the issuer's too; cert-manager's are like that",
	"e_ext_san_uri_host_not_fqdn_or_ip":                "a SPIFFE trust domain is no host: it may have one label",
	"e_key_usage_and_extended_key_usage_inconsistent":  "RFC 5280 section 4.2.1.12 tells relying parties what to make of both; requesters say which usages they want",
	"e_rfc_dnsname_underscore_in_sld":                  "names of services have underscores (RFC 2782)",
	"w_rfc_dnsname_underscore_in_trd":                  "names of services have underscores (RFC 2782)",
	"e_subj_contains_html_entities":                    "a subject is what was asked for and reviewed, byte for byte",
	"e_subj_country_not_uppercase":                     "a subject is what was asked for and reviewed, byte for byte",
	"e_subj_email_not_in_san":                          "a subject is what was asked for and reviewed, and no name is added to a request",
	"e_subject_printable_string_badalpha":              "an attribute of a subject may be empty: it grants nothing",
	"w_subject_dn_leading_whitespace":                  "a subject is what was asked for and reviewed, byte for byte",
	"w_subject_dn_trailing_whitespace":                 "a subject is what was asked for and reviewed, byte for byte",
	"e_subject_common_name_max_length":                 "names of Kubernetes identities exceed the upper bounds of RFC 5280",
	"e_subject_organization_name_max_length":           "names of Kubernetes groups exceed the upper bounds of RFC 5280",
	"e_subject_dn_serial_number_max_length":            "the upper bounds of RFC 5280 are left aside in all attributes",
	"e_ca_subject_field_empty":                         "as cert-manager does: relying parties that trust the certificate itself do not need its name",
	"w_distribution_point_missing_ldap_or_uri":         "an Issuer's locations are its operator's, in any scheme",
	"w_ext_aia_access_location_missing":                "an Issuer's locations are its operator's, in any scheme",
	"w_ext_key_usage_not_critical":                     "no template of certplane has a key usage of its own encoding: the standard library's is critical",
}

var registry = sync.OnceValues(func() (lint.Registry, error) {
	return lint.GlobalRegistry().Filter(lint.FilterOptions{IncludeSources: sources})
})

// judge returns the lints that a certificate fails, with their messages.
// Notices are left out: a certificate with notices has no faults.
func judge(t *testing.T, cert *x509.Certificate) map[string]string {
	t.Helper()
	lints, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := zcrypto.ParseCertificate(cert.Raw)
	if err != nil {
		t.Fatalf("zlint's parser: %v", err)
	}
	failed := map[string]string{}
	for name, result := range zlint.LintCertificateEx(parsed, lints).Results {
		if result.Status >= lint.Warn {
			failed[name] = fmt.Sprintf("%s %s", result.Status, result.Details)
		}
	}
	return failed
}

// wantFailed checks that a certificate fails only these lints, which must be
// excluded.
func wantFailed(t *testing.T, cert *x509.Certificate, names ...string) {
	t.Helper()
	failed := judge(t, cert)
	for name, text := range failed {
		if !slices.Contains(names, name) {
			t.Errorf("%s: %s", name, text)
		}
	}
	for _, name := range names {
		if failed[name] == "" {
			t.Errorf("%s has no objection", name)
		}
		if excluded[name] == "" {
			t.Errorf("%s is not excluded", name)
		}
	}
}

// A lint that does not exist, or that no certificate here fails, needs no
// exclusion.
func TestExclusions(t *testing.T) {
	lints, err := registry()
	if err != nil {
		t.Fatal(err)
	}
	if n := len(lints.Names()); n < 150 {
		t.Errorf("%d lints only", n)
	}
	failed := slices.Concat(rsaFails, selfSignedFails)
	for _, tc := range odd {
		failed = append(failed, tc.fails...)
	}
	for _, name := range slices.Sorted(maps.Keys(excluded)) {
		if lints.CertificateLints().ByName(name) == nil || !slices.Contains(failed, name) {
			t.Errorf("%s is excluded and does not exist, or no case fails it", name)
		}
	}
}

var keys sync.Map // pki.KeyType to crypto.Signer

// newKey returns a key of a type, the same one each time.
func newKey(t *testing.T, kind pki.KeyType) crypto.Signer {
	t.Helper()
	if known, ok := keys.Load(kind); ok {
		return known.(crypto.Signer)
	}
	key, err := pki.GenerateKey(kind)
	if err != nil {
		t.Fatal(err)
	}
	keys.Store(kind, key)
	return key
}

func newRoot(t *testing.T, now time.Time) *pki.Authority {
	t.Helper()
	root, err := pki.NewRoot(pki.UnrecordedSigning, "Example Root CA", newKey(t, pki.ECDSAP384), pki.DefaultRootLifetime, now)
	if err != nil {
		t.Fatal(err)
	}
	return root
}
