package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// Events are the events of an object, the latest last.
type Events struct {
	List []Event
	// Unknown reports that the caller may not list the events.
	Unknown bool
}

// eventsOf reads the events of an object. Events of objects without a namespace
// are in the namespace default.
func eventsOf(ctx context.Context, api Reader, object client.Object) (Events, error) {
	all := &eventsv1.EventList{}
	namespace := cmp.Or(object.GetNamespace(), metav1.NamespaceDefault)
	err := api.List(ctx, all, client.InNamespace(namespace), client.MatchingFields{"regarding.uid": string(object.GetUID())})
	if apierrors.IsForbidden(err) {
		return Events{Unknown: true}, nil
	}
	if err != nil {
		return Events{}, fmt.Errorf("listing Events: %w", err)
	}
	var events Events
	for _, e := range all.Items {
		events.List = append(events.List, Event{Time: apievents.LastSeen(e), Type: e.Type, Reason: e.Reason, Reporter: reporter(e), Note: e.Note})
	}
	slices.SortStableFunc(events.List, func(a, b Event) int { return cmp.Or(a.Time.Compare(b.Time), strings.Compare(a.Reason, b.Reason)) })
	return events, nil
}

// reporter returns the short name of the controller that wrote an event.
func reporter(e eventsv1.Event) string {
	if e.ReportingController == "" {
		return e.DeprecatedSource.Component
	}
	return e.ReportingController[strings.LastIndex(e.ReportingController, "/")+1:]
}
