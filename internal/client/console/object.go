package console

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	acmev1 "github.com/cert-manager/cert-manager/pkg/apis/acme/v1"
	cmv1 "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/api/certificates"
	verb "github.com/certplane/certplane/internal/client/cli/explain"
	"github.com/certplane/certplane/internal/client/cli/print"
	"github.com/certplane/certplane/internal/client/explain"
	"github.com/certplane/certplane/internal/policy/request"
)

// kinds are the kinds whose objects have pages, by resource.
var kinds = map[string]schema.GroupVersionKind{
	"certificatesigningrequests.certificates.k8s.io": certificatesv1.SchemeGroupVersion.WithKind("CertificateSigningRequest"),
	"podcertificaterequests.certificates.k8s.io":     certificatesv1.SchemeGroupVersion.WithKind("PodCertificateRequest"),
	"certificaterequests.cert-manager.io":            cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateRequestKind),
	"certificates.cert-manager.io":                   cmv1.SchemeGroupVersion.WithKind(cmv1.CertificateKind),
	"issuers.cert-manager.io":                        cmv1.SchemeGroupVersion.WithKind(cmv1.IssuerKind),
	"clusterissuers.cert-manager.io":                 cmv1.SchemeGroupVersion.WithKind(cmv1.ClusterIssuerKind),
	"orders.acme.cert-manager.io":                    acmev1.SchemeGroupVersion.WithKind(acmev1.OrderKind),
	"challenges.acme.cert-manager.io":                acmev1.SchemeGroupVersion.WithKind(acmev1.ChallengeKind),
	signers:                                          v1alpha1.GroupVersion.WithKind("Signer"),
	"certificatepolicies.certplane.dev":              v1alpha1.GroupVersion.WithKind("CertificatePolicy"),
	"certificatepolicyexceptions.certplane.dev":      v1alpha1.GroupVersion.WithKind("CertificatePolicyException"),
	revocations:                      v1alpha1.GroupVersion.WithKind("Revocation"),
	"acmeendpoints.certplane.dev":    v1alpha1.GroupVersion.WithKind("AcmeEndpoint"),
	"acmeexternalkeys.certplane.dev": v1alpha1.GroupVersion.WithKind("AcmeExternalKey"),
	"acmeaccounts.certplane.dev":     v1alpha1.GroupVersion.WithKind("AcmeAccount"),
	"acmeorders.certplane.dev":       v1alpha1.GroupVersion.WithKind("AcmeOrder"),
}

// signers are also found by their signer names, which contain a slash.
const signers = "signers.certplane.dev"

// objectOf returns the object that an address names.
func objectOf(r *http.Request) (resource, namespace, name string) {
	return r.PathValue("resource"), namespaceOf(r), r.PathValue("name")
}

func namespaceOf(r *http.Request) string {
	if namespace := r.PathValue("namespace"); namespace != noNamespace {
		return namespace
	}
	return ""
}

// ofObject returns the handler of an address that names an object of a kind with pages.
func ofObject(serve func(u *user, w http.ResponseWriter, r *http.Request)) func(*user, http.ResponseWriter, *http.Request) {
	return func(u *user, w http.ResponseWriter, r *http.Request) {
		resource, _, name := objectOf(r)
		if _, known := kinds[resource]; !known {
			u.fail(w, r, http.StatusNotFound, "The console has no page for objects of the resource "+resource+".")
			return
		}
		if resource != signers && len(content.IsPathSegmentName(name)) > 0 {
			u.fail(w, r, http.StatusNotFound, "No object can have the name "+name+".")
			return
		}
		serve(u, w, r)
	}
}

// serveObject serves the page of an object.
func (u *user) serveObject(w http.ResponseWriter, r *http.Request) {
	resource, namespace, name := objectOf(r)
	v, err := u.object(r.Context(), resource, namespace, name)
	if err != nil {
		u.failCall(w, r, "reading "+name, err)
		return
	}
	u.done(r.Context(), &v, r.URL.Query().Get(decidedParam), name)
	u.show(w, r, v)
}

// serveEvents serves the page of an object's Events.
func (u *user) serveEvents(w http.ResponseWriter, r *http.Request) {
	resource, namespace, name := objectOf(r)
	v, err := u.events(r.Context(), resource, namespace, name)
	if err != nil {
		u.failCall(w, r, "reading "+name, err)
		return
	}
	u.show(w, r, v)
}

// withoutEvents finds no Events: to find the Events of one object, an API server reads
// all, and the page of an object does not wait for that.
type withoutEvents struct{ userAPI }

// List implements client.Reader.
func (a withoutEvents) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*eventsv1.EventList); ok {
		return nil
	}
	return a.userAPI.List(ctx, list, options...)
}

// events returns the page of an object's Events.
func (u *user) events(ctx context.Context, resource, namespace, name string) (view, error) {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(kinds[resource])
	if err := u.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return view{}, err
	}
	found, err := explain.EventsOf(ctx, u.api, object)
	if err != nil {
		return view{}, err
	}
	v := view{Title: "Events of " + kinds[resource].Kind + " " + request.FullName(namespace, name)}
	v.addSection("Events", rowsOf(verb.EventRows(found.List, u.now)))
	if len(found.List) == 0 {
		v.Sections = []section{{Title: "Events", Lead: cmp.Or(found.Unknown, "No Events about it. Events are kept for an hour.")}}
	}
	return v, nil
}

// object returns the page of an object.
func (u *user) object(ctx context.Context, resource, namespace, name string) (view, error) {
	kind := kinds[resource]
	v := view{Title: kind.Kind + " " + request.FullName(namespace, name), self: u.linkTo(resource, namespace, name), watched: []string{resource}}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	// It is read before its explanation: if another request gets the name in between, the
	// form contains the UID of the former one, and is refused.
	missing := u.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object)
	explained := verb.Kinds[resource]
	if explained == nil && missing != nil {
		return view{}, missing
	}
	if explained != nil {
		q := u.query()
		q.Name, q.Namespace = name, namespace
		found, err := explained(ctx, withoutEvents{u.api}, q)
		if err != nil {
			return view{}, err
		}
		v.Lead, v.Next = found.Verdict, found.Next
		for _, s := range found.Sections {
			v.Sections = append(v.Sections, section{s.Title, s.Lead, rowsOf(s.Rows)})
		}
	}
	if missing != nil {
		return v, nil // signers that nobody has declared are explained without an object
	}
	if explained == nil {
		v.describe(object, u.now)
	}
	v.Events = u.cfg.Base + "events/" + strings.TrimPrefix(v.self, u.cfg.Base+"object/")
	toDecide, err := requestOf(resource, object)
	if err != nil {
		return view{}, err
	}
	if toDecide != nil {
		v.state, _ = explain.StateOf(toDecide)
	}
	if v.state == certificates.Pending {
		if v.Decision, err = u.decision(ctx, toDecide); err != nil {
			return view{}, err
		}
	}
	v.Source, err = source(object)
	return v, err
}

func rowsOf(all [][]string) []row {
	var rows []row
	for _, cells := range all {
		rows = append(rows, texts(cells...))
	}
	return rows
}

// source returns an object as YAML, without its managed fields.
func source(object *unstructured.Unstructured) (string, error) {
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations != nil {
		delete(annotations, "kubectl.kubernetes.io/last-applied-configuration")
		object.SetAnnotations(annotations)
	}
	text, err := yaml.Marshal(object)
	return string(text), err
}

// describe shows an object of a kind without explanations: its state, and for policies
// their decisions and the changes that they would make.
func (v *view) describe(object *unstructured.Unstructured, now time.Time) {
	var about struct {
		Status struct {
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"status"`
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &about); err != nil {
		return // it has conditions of another form
	}
	var rows []row
	for _, c := range about.Status.Conditions {
		if c.Type == v1alpha1.Ready && v.Lead == "" {
			v.Lead = object.GetName() + map[metav1.ConditionStatus]string{metav1.ConditionTrue: " is ready: ", metav1.ConditionFalse: " is not ready: "}[c.Status] + cmp.Or(c.Message, c.Reason)
		}
		rows = append(rows, texts(c.Type, string(c.Status), c.Reason, c.Message, print.Ago(now, c.LastTransitionTime.Time)))
	}
	v.addSection("Conditions", rows)
	if object.GetKind() != "CertificatePolicy" {
		return
	}
	policy := &v1alpha1.CertificatePolicy{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, policy); err == nil {
		v.describePolicy(policy, now)
	}
}

func (v *view) addSection(title string, rows []row) {
	if len(rows) > 0 {
		v.Sections = append(v.Sections, section{Title: title, Rows: rows})
	}
}

func (v *view) describePolicy(policy *v1alpha1.CertificatePolicy, now time.Time) {
	count := func(n int64) string { return fmt.Sprint(n) }
	v.addSection("Policy", []row{
		texts("effect", string(policy.Spec.Effect)), texts("mode", string(policy.Spec.EffectiveMode())), texts("digest", policy.Status.Digest),
	})
	if d := policy.Status.Decisions; d != nil {
		rows := []row{texts("approved", count(d.Approved)), texts("denied", count(d.Denied)), texts("waiting", count(d.Waiting)), texts("left to others", count(d.Left))}
		if d.LastTime != nil {
			rows = append(rows, texts("last", print.Ago(now, d.LastTime.Time)))
		}
		v.addSection("Decisions", rows)
	}
	s := policy.Status.Shadow
	if s == nil {
		return
	}
	rows := []row{texts("requests evaluated", count(s.Evaluated)), texts("with another outcome", count(s.Differences))}
	if s.Since != nil {
		rows = append(rows, texts("since", print.Ago(now, s.Since.Time)))
	}
	v.addSection("What it would change", rows)
	var samples []row
	for _, sample := range s.Samples {
		samples = append(samples, texts(sample.Request, string(sample.Was)+" would become "+string(sample.Would), strings.Join(sample.Violations, "; ")))
	}
	v.addSection("Some of the differences", samples)
}
