// Package agenthost is how agents describe their hosts in the API, in Nodes and
// in the status of Pods.
package agenthost

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// Taint is the key of the taint of Nodes that are hosts of agents. It keeps
	// schedulers from sending pods to a host that runs none.
	Taint = "certplane.dev/agent"
	// VersionPrefix begins the kubelet version of such a Node; the agent's
	// version follows.
	VersionPrefix = "certplane-agent "
	// ManifestAnnotation is the annotation of the Pods of agents. Its value is
	// the hash of the manifest.
	ManifestAnnotation = "certplane.dev/manifest-hash"
	// DNSNamesAnnotation and IPAddressesAnnotation list names and addresses, with commas: in
	// a request those that a host asks for, in a service account those that it may have.
	// Signers find the first in request.annotations, and must check them: the host chooses
	// them.
	DNSNamesAnnotation    = "certplane.dev/dns-names"
	IPAddressesAnnotation = "certplane.dev/ip-addresses"
	// Condition is the type of the condition: it is true if all certificates
	// are there and none waits for a refresh that failed. Its message has a
	// line for each certificate.
	Condition corev1.PodConditionType = "certplane.dev/Certificates"
	// ListsCondition is the type of the condition of a Pod with files of revocation lists: it
	// is true if all are there and none is overdue. Its message has a line for each file.
	ListsCondition corev1.PodConditionType = "certplane.dev/RevocationLists"
)

// The reasons of the condition.
const (
	reasonFresh  = "Fresh"
	reasonFailed = "NotFresh"
)

// Certificate is a certificate of a Pod.
type Certificate struct {
	Volume string `json:"volume"`
	Signer string `json:"signer"`
	// NotAfter is the end of the certificate; nil if there is none.
	NotAfter *time.Time `json:"notAfter,omitempty"`
	// Error is the reason why a certificate, or a newer one, is missing.
	Error string `json:"error,omitempty"`
}

// maxError is the most bytes of an error that the message shows.
const maxError = 512

// String returns the line of the certificate.
func (c Certificate) String() string {
	state := "missing"
	if c.NotAfter != nil {
		state = "expires " + c.NotAfter.UTC().Format(time.RFC3339)
	}
	return withError(fmt.Sprintf("%s %s %s", c.Volume, c.Signer, state), c.Error)
}

// withError returns a line that ends with an error, if there is one.
func withError(line, failure string) string {
	if failure == "" {
		return line
	}
	text := strings.Join(strings.Fields(failure), " ")
	if len(text) > maxError {
		text = strings.ToValidUTF8(text[:maxError], "") + "..."
	}
	return line + ": " + text
}

// ConditionOf returns the condition of certificates, without its times.
func ConditionOf(all []Certificate) corev1.PodCondition {
	condition := corev1.PodCondition{Type: Condition, Status: corev1.ConditionTrue, Reason: reasonFresh}
	var lines []string
	for _, c := range all {
		if c.Error != "" || c.NotAfter == nil {
			condition.Status, condition.Reason = corev1.ConditionFalse, reasonFailed
		}
		lines = append(lines, c.String())
	}
	condition.Message = strings.Join(lines, "\n")
	return condition
}

// CertificatesOf returns the certificates that a Pod's status describes. It skips lines of
// another form.
func CertificatesOf(status corev1.PodStatus) []Certificate {
	var all []Certificate
	for _, condition := range status.Conditions {
		if condition.Type != Condition {
			continue
		}
		for line := range strings.Lines(condition.Message) {
			if c, ok := parse(strings.TrimSpace(line)); ok {
				all = append(all, c)
			}
		}
	}
	return all
}

func parse(line string) (Certificate, bool) {
	volume, rest, _ := strings.Cut(line, " ")
	signer, rest, found := strings.Cut(rest, " ")
	c := Certificate{Volume: volume, Signer: signer}
	state, failure, _ := strings.Cut(rest, ": ")
	c.Error = failure
	end, expires := strings.CutPrefix(state, "expires ")
	if !expires {
		return c, found && state == "missing"
	}
	at, err := time.Parse(time.RFC3339, end)
	if err != nil {
		return c, false
	}
	c.NotAfter = &at
	return c, found
}
