// Package kubelet knows the certificate requests that kubelets make.
//
// There are two shapes: a node's client certificate, with which it talks to
// the API server, and its serving certificate. The texts of the errors reach
// clients, and so does the order of the checks: the first that fails speaks.
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

// The usages by name; sorted, as messages show them.
var (
	clientUsages  = []string{"client auth", "digital signature", keyEncipherment}
	servingUsages = []string{"digital signature", keyEncipherment, "server auth"}
)

// keyEncipherment may be absent: only RSA keys can encipher.
const keyEncipherment = "key encipherment"

// ValidateClient tells what keeps a request from being one for a node's
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

// ValidateServing tells what keeps a request from being one for a node's
// serving certificate. That its names are the node's is not checked here:
// it takes the Node object to know.
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

// ValidateNodeName tells what keeps the name of a request, which fits one of
// the shapes, from being a node's: after the prefix comes the name of a Node
// object, a DNS subdomain as of RFC 1123. Kubernetes does not look at it.
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

// checkUsages compares as sets: neither order nor repetition counts.
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
