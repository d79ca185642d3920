package publishlists

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// Reasons of the condition Listed.
const (
	reasonListed = "Listed"
	// reasonNoList: a CA has no list and cannot sign one.
	reasonNoList = "NoList"
	// reasonNotListed: the next list is late.
	reasonNotListed = "NotListed"
)

// EventRevoked is the reason of Events on new Revocations, and on what uses their certificates.
const EventRevoked = "Revoked"

const (
	// lateAfter is how long a list may take before the condition reports a delay.
	lateAfter = 10 * time.Second
	// knownAfter is how long it may take until the CA of a certificate is known, such as one
	// that was made a moment ago.
	knownAfter = 5 * time.Second
	// lookAgain is the interval of checks of a Revocation that is not listed, lookSeldom if a CA
	// has no list.
	lookAgain  = time.Second
	lookSeldom = time.Minute
)

// keepObject is how long a Revocation is kept after the end of its certificates, and lookOld is
// the longest time between two looks for its deletion.
const (
	keepObject = 30 * 24 * time.Hour
	lookOld    = 24 * time.Hour
)

// APIConfig is how the controller reaches Revocations.
type APIConfig struct {
	// Client reads and deletes Revocations, and writes their status.
	Client client.Client
	// Steady is the clock for deletions, which does not follow each jump ahead.
	Steady clock.PassiveClock
	// Revocations is a cache with Watched.
	Revocations cache.Cache
	// Events, if not nil, records Events of Revocations, and of what uses their certificates.
	Events events.EventRecorder
	// Records, if not nil, calls found for each record in which a field has a value.
	Records func(ctx context.Context, field, value string, found func(*inventoryv1alpha1.IssuedCertificate)) error
}

// Watched restricts a cache to what the controller reads of Revocations.
func Watched() cache.Options {
	return cache.Options{DefaultTransform: func(object any) (any, error) {
		if r, ok := object.(*v1alpha1.Revocation); ok {
			r.ManagedFields, r.Spec = nil, v1alpha1.RevocationSpec{}
		}
		return object, nil
	}}
}

// Add adds the controller to mgr: what signs lists, and what sets the condition Listed of
// Revocations and deletes old ones.
func Add(mgr ctrl.Manager, cfg Config, api APIConfig) error {
	metrics, err := newMetrics(cfg.Metrics)
	if err != nil {
		return err
	}
	p := &publisher{Config: cfg, metrics: metrics, states: map[string]*state{}}
	if err := mgr.Add(p); err != nil {
		return fmt.Errorf("adding the signer of revocation lists: %w", err)
	}
	revocations := source.Kind(api.Revocations, &v1alpha1.Revocation{}, &handler.TypedEnqueueRequestForObject[*v1alpha1.Revocation]{})
	err = ctrl.NewControllerManagedBy(mgr).Named("publishlists").WatchesRawSource(revocations).Complete(&reporter{p, api})
	if err != nil {
		return fmt.Errorf("building the controller of revocation lists: %w", err)
	}
	return nil
}

// reporter sets the condition Listed, and deletes Revocations long after the end of their
// certificates.
type reporter struct {
	*publisher
	api APIConfig
}

// Reconcile implements reconcile.Reconciler.
func (r *reporter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen := &v1alpha1.Revocation{}
	if err := r.api.Revocations.Get(ctx, request.NamespacedName, seen); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	var old time.Duration // until its deletion; 0 if that is not known
	if ends := seen.Status.Ends; ends != nil {
		if old = ends.Add(keepObject).Sub(r.api.Steady.Now()); old <= 0 {
			return reconcile.Result{}, client.IgnoreNotFound(r.api.Client.Delete(ctx, seen, client.Preconditions{UID: &seen.UID}))
		}
	}
	if meta.IsStatusConditionTrue(seen.Status.Conditions, v1alpha1.RevocationListed) {
		return reconcile.Result{RequeueAfter: min(old, lookOld)}, nil
	}
	verdict, ok := r.listed(seen.UID)
	age := r.Clock.Now().Sub(seen.CreationTimestamp.Time)
	again := reconcile.Result{RequeueAfter: lookAgain}
	switch {
	case !ok:
		return again, nil
	case verdict.Reason == reasonNotListed && age < lateAfter, verdict.Reason == reasonNoList && age < knownAfter:
		return again, nil // the list is being made
	case verdict.Reason == reasonNoList:
		again.RequeueAfter = lookSeldom
	case verdict.Status == metav1.ConditionTrue:
		again.RequeueAfter = min(old, lookOld)
	}
	object := &v1alpha1.Revocation{}
	verdict.LastTransitionTime = metav1.NewTime(r.Clock.Now())
	before, err := worker.SetCondition(ctx, r.api.Client, r.api.Events, request.NamespacedName, object, &object.Status.Conditions, verdict, "List")
	if apierrors.IsNotFound(err) {
		return reconcile.Result{}, nil
	}
	if err == nil && before == "" && r.api.Events != nil {
		r.revoked(ctx, object)
	}
	return worker.Kept(again.RequeueAfter, err)
}

// maxTold is how many certificates of a Revocation have an Event on the object that uses them.
const maxTold = 15

// revoked records Events about a new Revocation: on itself, and on what uses its certificates.
func (r *reporter) revoked(ctx context.Context, object *v1alpha1.Revocation) {
	by := ""
	if object.Status.RequestedBy != nil {
		by = " by " + object.Status.RequestedBy.Username
	}
	r.api.Events.Eventf(object, nil, corev1.EventTypeNormal, EventRevoked, "Revoke", "%s", eventtext.Fit(fmt.Sprintf("%d certificates are revoked%s", object.Status.Recorded, by)))
	if r.api.Records == nil {
		return
	}
	for _, fingerprint := range r.Store.Revoked().Fingerprinted(object.UID, maxTold) {
		err := r.api.Records(ctx, "metadata.name", hex.EncodeToString(fingerprint[:]), func(record *inventoryv1alpha1.IssuedCertificate) {
			if user := userOf(record); user != nil {
				r.api.Events.Eventf(user, object, corev1.EventTypeWarning, EventRevoked, "Revoke", "%s",
					eventtext.Fit(fmt.Sprintf("the certificate %s is revoked%s (Revocation %s)", record.Certificate.SerialNumber, by, object.Name)))
			}
		})
		if err != nil {
			log.FromContext(ctx).Error(err, "Cannot find what uses a revoked certificate", "revocation", object.Name)
			return
		}
	}
}

// userOf returns the object that uses a recorded certificate, or its request; nil for what has
// its own Events, or none.
func userOf(record *inventoryv1alpha1.IssuedCertificate) *corev1.ObjectReference {
	versions := map[string]string{"Certificate": "cert-manager.io/v1", "Node": "v1", "Pod": "v1"}
	if at := record.Location; at != nil {
		if version, ok := versions[at.Kind]; ok {
			return &corev1.ObjectReference{APIVersion: version, Kind: at.Kind, Namespace: at.Namespace, Name: at.Name}
		}
		return nil // the controller of AcmeOrders does so
	}
	of := record.Request
	if record.Use != "" || of.Name == "" {
		return nil
	}
	return &corev1.ObjectReference{APIVersion: of.APIGroup + "/v1", Kind: of.Kind, Namespace: of.Namespace, Name: of.Name, UID: types.UID(of.UID)}
}

// listed returns the condition of the Revocation with a UID. ok is false while its entries are
// not known.
func (p *publisher) listed(uid types.UID) (verdict metav1.Condition, ok bool) {
	var without, late []string
	// The parts of a large act have a number after its UID.
	for part, name := 1, uid; ; part, name = part+1, types.UID(fmt.Sprintf("%s-%d", uid, part)) {
		revision, authorities, known := p.Store.Revoked().Act(name)
		if !known {
			break
		}
		ok = true
		for _, id := range authorities {
			if ca, err := p.lists(id, revision); err != nil {
				late = append(late, fmt.Sprintf("%s: %v", ca, err))
			} else if ca != "" {
				without = append(without, ca)
			}
		}
	}
	verdict = metav1.Condition{Type: v1alpha1.RevocationListed, Status: metav1.ConditionFalse}
	switch {
	case len(without) > 0:
		verdict.Reason, verdict.Message = reasonNoList, "These CAs have no revocation list with the certificates, so programs that check lists do not refuse them: "+text(without)
	case len(late) > 0:
		verdict.Reason, verdict.Message = reasonNotListed, "The last lists are from before this Revocation: "+text(late)
	default:
		verdict.Status, verdict.Reason, verdict.Message = metav1.ConditionTrue, reasonListed, "The revocation lists of the CAs have the certificates"
	}
	return verdict, ok
}

func text(all []string) string {
	slices.Sort(all)
	return strings.Join(slices.Compact(all), "; ")
}

var errWaits = errors.New("the next list is not signed yet")

// lists returns a name for the CA with an identifier if its list does not cover the acts up to a
// revision: with the reason if a list is expected, otherwise nil.
func (p *publisher) lists(authority []byte, revision int64) (ca string, late error) {
	has := func(ids [][]byte) bool {
		return slices.ContainsFunc(ids, func(id []byte) bool { return bytes.Equal(id, authority) })
	}
	if bytes.Equal(authority, revocation.ByFingerprint) {
		return "unknown, of certificates that are named by fingerprint alone", nil
	}
	ca, hint := hex.EncodeToString(authority), ""
	for _, list := range p.Lists.All() {
		if list.Last == nil || !has(revocation.AuthoritiesOf(list.CA)) {
			continue
		}
		if list.Last.Covers >= revision {
			return "", nil
		}
		ca, hint = list.CA.Subject.String(), " (its key is not on this server: sign a list with 'certplane crl sign')"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.states {
		switch {
		case !has(s.ids):
		case s.unable != nil:
			return s.subject, nil
		default:
			return s.subject, cmp.Or(s.problem, errWaits)
		}
	}
	if !p.complete {
		return ca, errWaits
	}
	return ca + hint, nil
}
