package explain

import (
	"strings"

	eventsv1 "k8s.io/api/events/v1"

	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/pki"
)

func describeRequest(c *csr) Request {
	r := Request{
		SignerName: c.Spec.SignerName, Created: c.CreationTimestamp.Time,
		Username: c.Spec.Username, Groups: c.Spec.Groups, ExpirationSeconds: c.Spec.ExpirationSeconds,
	}
	for _, usage := range c.Spec.Usages {
		r.Usages = append(r.Usages, string(usage))
	}
	if parsed, err := pki.ParseRequest(c.Spec.Request); err == nil {
		r.Subject, r.Names, r.Key = parsed.Subject.String(), pki.RequestNames(parsed), pki.KeyName(parsed.PublicKey)
	}
	return r
}

func describeCertificate(chain []byte) *Certificate {
	certs, err := pki.ParseCertificates(chain)
	if err != nil || len(certs) == 0 {
		return nil
	}
	leaf := certs[0]
	return &Certificate{
		Subject: leaf.Subject.String(), Issuer: leaf.Issuer.String(),
		SerialNumber: leaf.SerialNumber.Text(16), SHA256: pki.Fingerprint(leaf),
		NotBefore: leaf.NotBefore, NotAfter: leaf.NotAfter,
	}
}

func describeEvents(events []eventsv1.Event) []Event {
	var list []Event
	for _, e := range events {
		list = append(list, Event{Time: apievents.LastSeen(e), Type: e.Type, Reason: e.Reason, Reporter: reporter(e), Note: e.Note})
	}
	return list
}

// reporter is the short name of who wrote an event.
func reporter(e eventsv1.Event) string {
	if e.ReportingController == "" {
		return e.DeprecatedSource.Component
	}
	return e.ReportingController[strings.LastIndex(e.ReportingController, "/")+1:]
}
