package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	apievents "github.com/certplane/certplane/internal/api/events"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policies"
	"github.com/certplane/certplane/internal/policy/quorum"
)

// describeContent returns the common content of requests with PKCS#10. parsed is nil if
// the PKCS#10 request cannot be read.
func describeContent[U ~string](created metav1.Time, username string, groups []string, usages []U, parsed *pki.Request) Content {
	c := Content{Created: created.Time, Username: username, Groups: groups, Usages: []string{}}
	for _, usage := range usages {
		c.Usages = append(c.Usages, string(usage))
	}
	if parsed != nil {
		c.Subject, c.Names, c.Key = parsed.Subject.String(), pki.RequestNames(parsed), pki.KeyName(parsed.PublicKey)
	}
	return c
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

// Events are the events of an object, the latest last.
type Events struct {
	List []Event
	// Unknown is the reason why the events are unknown; empty if they are known.
	Unknown string
	// deniedBy is the user who denied the request; empty if it is not denied, or if the
	// caller may not read the record.
	deniedBy string
	// revocation is the revocation of the request's certificate; nil if it is not
	// revoked, or if the caller may not read the record.
	revocation *Revocation
}

// checks returns a check that reports unknown events, if they are unknown.
func (e Events) checks() []Check {
	if e.Unknown == "" {
		return nil
	}
	return []Check{{"events", Unknown, e.Unknown}}
}

// EventsOf reads the events of an object. Events of objects without a namespace
// are in the namespace default.
func EventsOf(ctx context.Context, api Reader, object client.Object) (Events, error) {
	all := &eventsv1.EventList{}
	namespace := cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	known, err := list(ctx, api, all, client.InNamespace(namespace), client.MatchingFields{"regarding.uid": string(object.GetUID())})
	if err != nil {
		return Events{}, fmt.Errorf("listing Events: %w", err)
	}
	var events Events
	if known == Unknown {
		events.Unknown = mayNotRead("list", "events", namespace)
	}
	for _, e := range all.Items {
		events.List = append(events.List, Event{Time: apievents.LastSeen(e).UTC(), Type: e.Type, Reason: e.Reason, Reporter: reporter(e), Note: e.Note})
	}
	if err := events.addDenial(ctx, api, object); err != nil {
		return Events{}, err
	}
	slices.SortStableFunc(events.List, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Reason, b.Reason)) })
	return events, nil
}

// addDenial adds the user who denied a request, if the caller may read the inventory's
// record.
func (e *Events) addDenial(ctx context.Context, api Reader, object client.Object) error {
	isDenial := func(c quorum.Condition) bool {
		return c.Type == string(certificatesv1.CertificateDenied) && c.Status == string(corev1.ConditionTrue)
	}
	if !slices.ContainsFunc(policies.ConditionsOf(object), isDenial) {
		return nil
	}
	denial := &inventoryv1alpha1.CertificateDecision{}
	found, err := exists(ctx, api, client.ObjectKey{Name: string(object.GetUID())}, denial)
	if err != nil {
		return fmt.Errorf("reading the record of the denial: %w", err)
	}
	if found == Yes && len(denial.Users) > 0 && denial.Time != nil {
		e.deniedBy = strings.Join(denial.Users, ", ")
		e.List = append(e.List, Event{Time: denial.Time.UTC(), Type: corev1.EventTypeWarning, Reason: denial.Decision, Reporter: "inventory", Note: e.deniedBy + ": " + denial.Message})
	}
	return nil
}

// eventsOfRequest reads the events of a request, and whether its certificate is revoked.
func eventsOfRequest(ctx context.Context, api Reader, object client.Object, p progress) (Events, error) {
	events, err := EventsOf(ctx, api, object)
	cert := describeCertificate(p.chain)
	if err != nil || p.state != certificates.Issued || cert == nil {
		return events, err
	}
	record := &inventoryv1alpha1.IssuedCertificate{}
	found, err := exists(ctx, api, client.ObjectKey{Name: cert.SHA256}, record)
	if err != nil {
		return Events{}, fmt.Errorf("reading whether the certificate is revoked: %w", err)
	}
	if found == Yes {
		events.revocation = revocationOf(record)
	}
	return events, nil
}

// reporter returns the short name of the controller that wrote an event.
func reporter(e eventsv1.Event) string {
	if e.ReportingController == "" {
		return e.DeprecatedSource.Component
	}
	return e.ReportingController[strings.LastIndex(e.ReportingController, "/")+1:]
}
