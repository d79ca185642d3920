// Package kubelet validates the certificate requests of kubelets.
//
// There are two shapes: a node's client certificate for the API server, and its
// serving certificate. Clients see the texts of the errors, and the order of
// the checks: the first one that fails is reported.
package kubelet

import (
	"crypto/x509"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

const (
	nodesGroup = "system:nodes"
	userPrefix = "system:node:"
)

// The usages by name, sorted as in messages.
var (
	clientUsages  = []string{"client auth", "digital signature", keyEncipherment}
	servingUsages = []string{"digital signature", keyEncipherment, "server auth"}
)

// keyEncipherment may be missing: only RSA keys can encipher.
const keyEncipherment = "key encipherment"

// ValidateClient returns an error if a request is not a valid one for a node's
// client certificate.
func ValidateClient[U ~string](req *x509.CertificateRequest, usages []U) error {
	return first(
		checkOrganization(req),
		forbid("DNS", len(req.DNSNames)),
		forbid("Email", len(req.EmailAddresses)),
		forbid("IP", len(req.IPAddresses)),
		forbid("URI", len(req.URIs)),
		checkCommonName(req),
		checkUsages(usages, clientUsages),
	)
}

// ValidateServing returns an error if a request is not a valid one for a node's
// serving certificate. It does not check that the names belong to the node:
// that needs the Node object.
func ValidateServing[U ~string](req *x509.CertificateRequest, usages []U) error {
	return first(
		checkOrganization(req),
		checkAddressed(req),
		forbid("Email", len(req.EmailAddresses)),
		forbid("URI", len(req.URIs)),
		checkUsages(usages, servingUsages),
		checkCommonName(req),
	)
}

// ValidateNodeName returns an error if the common name of a request, which fits
// one of the shapes, is not a valid name of a node: after the prefix it must
// have the name of a Node object, a DNS subdomain (RFC 1123). Kubernetes does
// not check that.
func ValidateNodeName(req *x509.CertificateRequest) error {
	name, _ := strings.CutPrefix(req.Subject.CommonName, userPrefix)
	if len(name) > 253 || !subdomain.MatchString(name) {
		return fmt.Errorf("subject common name has no valid node name after %s", userPrefix)
	}
	return nil
}

var subdomain = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func checkOrganization(req *x509.CertificateRequest) error {
	if !slices.Equal(req.Subject.Organization, []string{nodesGroup}) {
		return errors.New("subject organization is not system:nodes")
	}
	return nil
}

func checkCommonName(req *x509.CertificateRequest) error {
	if !strings.HasPrefix(req.Subject.CommonName, userPrefix) {
		//lint:ignore ST1005 the text is Kubernetes' own, and the colon is part of the prefix
		return errors.New("subject common name does not begin with system:node:")
	}
	return nil
}

func checkAddressed(req *x509.CertificateRequest) error {
	if len(req.DNSNames)+len(req.IPAddresses) == 0 {
		return errors.New("DNS or IP subjectAltName is required")
	}
	return nil
}

func forbid(kind string, count int) error {
	if count > 0 {
		return fmt.Errorf("%s subjectAltNames are not allowed", kind)
	}
	return nil
}

// checkUsages compares usages as sets: order and repetition do not matter.
func checkUsages[U ~string](usages []U, want []string) error {
	var got []string
	for _, usage := range usages {
		got = append(got, string(usage))
	}
	slices.Sort(got)
	got = slices.Compact(got)
	if slices.Equal(got, want) || slices.Equal(got, without(want, keyEncipherment)) {
		return nil
	}
	return fmt.Errorf("usages did not match %v", want)
}

func without(list []string, item string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == item })
}
