package trustbundles

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	"github.com/certplane/certplane/internal/pki"
	"github.com/certplane/certplane/internal/policy/trustbundle"
	"github.com/certplane/certplane/internal/policy/truststore"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
)

const (
	// mostRoots and mostPEM limit the result of a TrustBundle, in certificates and bytes.
	mostRoots, mostPEM = 1000, 512 << 10
	// problemPause is the wait until a TrustBundle with a problem is tried again. The changes
	// that solve most problems wake it earlier.
	problemPause = 10 * time.Minute
	// mostSubject is the length of the longest subject in the status.
	mostSubject = 256
)

// Reconcile makes the targets of a TrustBundle what they should be.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	p := &pass{reconciler: r, bundle: &v1alpha1.TrustBundle{}, used: map[use]bool{}, now: r.Clock.Now()}
	err := r.Client.Get(ctx, request.NamespacedName, p.bundle)
	switch {
	case apierrors.IsNotFound(err):
		p.forget(request.NamespacedName)
		r.wake(trustBundle, request.NamespacedName)
		gone := &v1alpha1.TrustBundle{ObjectMeta: metav1.ObjectMeta{Namespace: request.Namespace, Name: request.Name}}
		return worker.Kept(0, r.prune(ctx, gone, nil))
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading a TrustBundle: %w", err)
	case p.bundle.DeletionTimestamp != nil:
		return reconcile.Result{}, nil
	}
	again, err := p.run(ctx)
	p.forget(request.NamespacedName)
	return worker.Kept(again, err)
}

// pass is one look at a TrustBundle.
type pass struct {
	*reconciler
	bundle *v1alpha1.TrustBundle
	now    time.Time
	used   map[use]bool
	// changed means that a target was written.
	changed bool
}

// use records that the TrustBundle uses an object: its changes wake the TrustBundle from now on.
func (p *pass) use(kind, namespace, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := client.ObjectKeyFromObject(p.bundle)
	if p.uses[key] == nil {
		p.uses[key] = map[use]bool{}
	}
	p.used[use{kind, namespace, name}], p.uses[key][use{kind, namespace, name}] = true, true
}

// forget forgets the objects that the TrustBundle has used before this pass only.
func (p *pass) forget(key types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.uses[key] = p.used; len(p.used) == 0 {
		delete(p.uses, key)
	}
}

func (p *pass) run(ctx context.Context) (again time.Duration, err error) {
	targets, err := p.targets(ctx, p.bundle)
	if err != nil {
		return 0, err
	}
	if many, err := p.tooMany(ctx); err != nil {
		return 0, err
	} else if many != nil {
		return problemPause, p.report(ctx, many, "")
	}
	sources, found, err := p.readSources(ctx)
	if err != nil {
		return 0, err
	}
	former, complete := p.former(targets, sources)
	roots := trustbundle.Next(former, sources, p.rules(), p.now)
	certs, text := encoded(roots)
	if len(certs) > mostRoots || len(text) > mostPEM {
		// Former roots go as usual, and no new ones come.
		found = &problem{reasonTooLarge, fmt.Sprintf("the sources have %d certificates of %d bytes: at most %d of %d bytes are possible", len(certs), len(text), mostRoots, mostPEM)}
		for i := range sources {
			sources[i].Roots, sources[i].Failed = nil, true
		}
		roots = trustbundle.Next(former, sources, p.rules(), p.now)
		certs, text = encoded(roots)
	}
	switch {
	case found != nil && !complete:
		return problemPause, p.report(ctx, found, "")
	case len(certs) == 0:
		return p.withoutRoots(ctx, targets, found)
	}
	// The status lists a root before it is in a target, so that it gets its overlap whenever
	// the process ends.
	if p.listRoots(roots) {
		if err := p.Client.Status().Update(ctx, p.bundle, client.FieldOwner(Component)); err != nil {
			return 0, err
		}
	}
	found, digest, err := p.writeAll(ctx, targets, certs, text, found)
	if err != nil || found == nil {
		return 0, err
	}
	if next := trustbundle.Change(roots, p.rules()); !next.IsZero() {
		again = max(next.Sub(p.now), time.Second)
	}
	if found.reason != reasonSynced && (again == 0 || again > problemPause) {
		again = problemPause
	}
	return again, p.report(ctx, found, digest)
}

// encoded returns the certificates of roots, also in PEM.
func encoded(roots []trustbundle.Root) (certs []*x509.Certificate, text string) {
	for _, root := range roots {
		certs = append(certs, root.Certificate)
	}
	return certs, string(pki.EncodeCertificates(certs...))
}

// tooMany returns a problem if the namespace has as many older TrustBundles as it may have.
func (p *pass) tooMany(ctx context.Context) (*problem, error) {
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(trustBundle + "List"))
	if err := p.bundles.List(ctx, all, client.InNamespace(p.bundle.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("counting TrustBundles: %w", err)
	}
	older := 0
	for i := range all.Items {
		if c := all.Items[i].CreationTimestamp.Compare(p.bundle.CreationTimestamp.Time); c < 0 || c == 0 && all.Items[i].Name < p.bundle.Name {
			older++
		}
	}
	if older < p.Settings.PerNamespace {
		return nil, nil
	}
	p.use(trustBundle, p.bundle.Namespace, "")
	return &problem{reasonTooMany, fmt.Sprintf("the namespace has %d older TrustBundles, and certplane's configuration (trustBundles.perNamespace) permits %d", older, p.Settings.PerNamespace)}, nil
}

// rules returns the rules of the spec.
func (p *pass) rules() trustbundle.Rules {
	spec := p.bundle.Spec
	rules := trustbundle.Rules{
		Overlap: ptr.Deref(spec.Overlap, metav1.Duration{}).Duration,
		Filter:  truststore.Filter{Expired: ptr.Deref(spec.Filter.Expired, true), NonCA: ptr.Deref(spec.Filter.NonCA, true)},
	}
	for _, text := range spec.Distrusted {
		rules.Distrusted = append(rules.Distrusted, strings.ToLower(strings.ReplaceAll(text, ":", "")))
	}
	return rules
}

// stored returns the certificates in targets.
func stored(targets []target) (all []*x509.Certificate) {
	for _, t := range targets {
		if certs, err := pki.ParseCertificates([]byte(t.pem())); err == nil {
			all = append(all, certs...)
		}
	}
	return all
}

// former returns the roots of the last pass: those in the status, whose certificates are in the
// targets or, if they are retired, in the status. A client that may write only a target cannot
// add one. complete means that there was a pass, and that no root is missing.
//
// If the status was lost, all certificates in the last target, a ClusterTrustBundle if there is
// one, count as roots that a renewal has removed.
func (p *pass) former(targets []target, sources []trustbundle.Source) (roots []trustbundle.Root, complete bool) {
	status := p.bundle.Status
	if status.Digest == "" && len(status.Roots) == 0 {
		for _, cert := range stored(targets[len(targets)-1:]) {
			for _, source := range sources {
				if source.Renewed {
					roots = append(roots, trustbundle.Root{Certificate: cert, Source: source.Name})
				}
			}
		}
		return roots, false
	}
	known := map[string]*x509.Certificate{}
	for _, cert := range stored(targets) {
		known[pki.Fingerprint(cert)] = cert
	}
	complete = status.Digest != ""
	for _, listed := range status.Roots {
		root := trustbundle.Root{Certificate: known[listed.Fingerprint], Source: listed.Source}
		if cert, err := x509.ParseCertificate(listed.Certificate); err == nil {
			root.Certificate = cert
		}
		if listed.RetiredUntil != nil {
			root.RetiredUntil = listed.RetiredUntil.Time
		}
		if root.Certificate == nil {
			complete = false
			continue
		}
		roots = append(roots, root)
	}
	return roots, complete
}

// listRoots lists the roots in the status, and reports whether that changes it.
func (p *pass) listRoots(roots []trustbundle.Root) bool {
	var listed []v1alpha1.TrustRoot
	for _, root := range roots {
		subject := strings.ToValidUTF8(root.Certificate.Subject.String(), "?")
		one := v1alpha1.TrustRoot{
			Fingerprint: pki.Fingerprint(root.Certificate), Subject: strings.ToValidUTF8(subject[:min(len(subject), mostSubject)], ""),
			NotAfter: metav1.NewTime(root.Certificate.NotAfter), Source: root.Source,
		}
		if !root.RetiredUntil.IsZero() {
			one.RetiredUntil, one.Certificate = ptr.To(metav1.NewTime(root.RetiredUntil.Truncate(time.Second))), root.Certificate.Raw
		}
		listed = append(listed, one)
	}
	if equality.Semantic.DeepEqual(p.bundle.Status.Roots, listed) {
		return false
	}
	p.bundle.Status.Roots, p.bundle.Status.RootCount = listed, int32(len(listed))
	return true
}

// withoutRoots keeps the targets as they are, unless they contain distrusted certificates.
func (p *pass) withoutRoots(ctx context.Context, targets []target, found *problem) (time.Duration, error) {
	distrusted := p.rules().Distrusted
	if slices.ContainsFunc(stored(targets), func(cert *x509.Certificate) bool { return slices.Contains(distrusted, pki.Fingerprint(cert)) }) {
		if err := p.prune(ctx, p.bundle, nil); err != nil {
			return 0, err
		}
	}
	if found == nil {
		found = &problem{reasonNotFound, "no certificate of the sources is left after spec.filter and spec.distrusted"}
	}
	return problemPause, p.report(ctx, found, "")
}

// writeAll writes all targets: one that fails does not keep the others from the roots. It
// returns what to report, nil if the namespace is being deleted, and the digest of the roots if
// a target has them.
func (p *pass) writeAll(ctx context.Context, targets []target, certs []*x509.Certificate, text string, found *problem) (report *problem, digest string, err error) {
	var names []string
	for _, t := range targets {
		failed := p.write(ctx, t, certs, text)
		names = append(names, fmt.Sprintf("the %s %q", t.kind, t.Name))
		switch {
		case failed == nil:
			digest = digestOf(text)
			continue
		case apierrors.IsNotFound(failed), apierrors.HasStatusCause(failed, corev1.NamespaceTerminatingCause):
			return nil, "", nil
		case apierrors.IsForbidden(failed), apierrors.IsInvalid(failed):
			failed = problemf("Sync"+t.kind+"TargetFailed", "cannot write the %s %q: %s", t.kind, t.Name, eventtext.Line(failed.Error()))
		}
		if problem := problemIn(failed); problem == nil {
			err = errors.Join(err, fmt.Errorf("writing the %s %s: %w", t.kind, t.Name, failed))
		} else if found == nil {
			found = problem
		}
	}
	if err != nil {
		return nil, "", err
	}
	if c := meta.FindStatusCondition(p.bundle.Status.Conditions, v1alpha1.TrustSynced); c == nil || c.ObservedGeneration != p.bundle.Generation || c.Status != metav1.ConditionTrue {
		if err := p.prune(ctx, p.bundle, targets); err != nil {
			return nil, "", err
		}
	}
	return cmp.Or(found, &problem{reasonSynced, "the roots are in " + strings.Join(names, ", ")}), digest, nil
}

// report sets the condition and the digest of the targets, which is empty if it has not changed,
// and records an Event if something has changed.
func (p *pass) report(ctx context.Context, found *problem, digest string) error {
	message := found.message + "."
	if !strings.HasPrefix(message, "spec.") {
		message = strings.ToUpper(message[:1]) + message[1:]
	}
	condition := metav1.Condition{
		Type: v1alpha1.TrustSynced, Status: metav1.ConditionFalse, Reason: found.reason, Message: eventtext.Fit(message),
		ObservedGeneration: p.bundle.Generation, LastTransitionTime: metav1.NewTime(p.now),
	}
	kind, action := corev1.EventTypeWarning, "SyncFailed"
	if found.reason == reasonSynced {
		condition.Status, kind, action = metav1.ConditionTrue, corev1.EventTypeNormal, reasonSynced
	}
	status := &p.bundle.Status
	before := ptr.Deref(meta.FindStatusCondition(status.Conditions, condition.Type), metav1.Condition{})
	changed := meta.SetStatusCondition(&status.Conditions, condition)
	if digest != "" && digest != status.Digest {
		status.Digest, changed = digest, true
		defer p.wake(trustBundle, client.ObjectKeyFromObject(p.bundle))
	}
	if changed {
		if err := p.Client.Status().Update(ctx, p.bundle, client.FieldOwner(Component)); err != nil {
			return err
		}
	}
	if before.Reason != condition.Reason || before.Message != condition.Message || p.changed {
		p.Events.Eventf(p.bundle, nil, kind, condition.Reason, action, "%s", condition.Message)
	}
	return nil
}
