package publishlists

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/certplane/certplane/api/certplane/v1alpha1"
	inventoryv1alpha1 "github.com/certplane/certplane/api/inventory/v1alpha1"
	"github.com/certplane/certplane/internal/process/eventtext"
	"github.com/certplane/certplane/internal/process/worker"
	"github.com/certplane/certplane/internal/revocation"
)

// The marks of ConfigMaps that are filled with the revocation lists of a signer, for pods.
const (
	// FillLabel has the value "true", and SignerAnnotation the name of the signer.
	FillLabel        = v1alpha1.GroupName + "/revocation-lists"
	SignerAnnotation = v1alpha1.GroupName + "/signer"
	// DateAnnotation is since when all of the lists are valid.
	DateAnnotation = v1alpha1.GroupName + "/revocation-lists-date"
	// FileKey is the key of the lists, in PEM.
	FileKey = "crl.pem"
	// Reasons of Events: the lists do not fit, or the ConfigMap does not name a signer.
	reasonTooLarge  = "TooLarge"
	reasonNotFilled = "NotFilled"
)

// FillerConfig configures the controller that fills ConfigMaps.
type FillerConfig struct {
	// Client writes ConfigMaps.
	Client client.Client
	// ConfigMaps is a cache with WatchedConfigMaps.
	ConfigMaps cache.Cache
	Lists      interface {
		All() []*revocation.List
		Follow(ctx context.Context, do func())
	}
	Events events.EventRecorder
	Clock  clock.PassiveClock
}

// WatchedConfigMaps restricts a cache to the ConfigMaps to fill.
func WatchedConfigMaps() cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(), DefaultLabelSelector: labels.SelectorFromSet(labels.Set{FillLabel: "true"}),
	}
}

// AddFiller adds the controller that fills ConfigMaps to mgr.
func AddFiller(mgr ctrl.Manager, cfg FillerConfig) error {
	f := &filler{FillerConfig: cfg}
	marked := source.Kind(cfg.ConfigMaps, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{})
	err := ctrl.NewControllerManagedBy(mgr).Named("fillconfigmaps").WatchesRawSource(marked).WatchesRawSource(source.Func(f.wake)).Complete(f)
	if err != nil {
		return fmt.Errorf("building the controller that fills ConfigMaps with revocation lists: %w", err)
	}
	return nil
}

type filler struct {
	FillerConfig
	said worker.Said[types.NamespacedName, unfilled]
}

// wake queues all ConfigMaps when a list has changed.
func (f *filler) wake(ctx context.Context, queue worker.Queue) error {
	go f.Lists.Follow(ctx, func() {
		all := &corev1.ConfigMapList{}
		if err := f.ConfigMaps.List(ctx, all); err != nil {
			worker.CannotWake(ctx, err, "Cannot find the ConfigMaps to fill with revocation lists")
		}
		for _, marked := range all.Items {
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&marked)})
		}
	})
	return nil
}

// Reconcile implements reconcile.Reconciler.
func (f *filler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	seen := &corev1.ConfigMap{}
	if err := f.ConfigMaps.Get(ctx, request.NamespacedName, seen); err != nil {
		f.said.News(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if seen.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	filled := seen.DeepCopy()
	problem := fill(filled, f.Lists.All(), f.Clock.Now())
	var err error
	if problem.reason == "" && !equality.Semantic.DeepEqual(seen, filled) {
		err = f.Client.Patch(ctx, filled, client.MergeFrom(seen))
	}
	if apierrors.IsInvalid(err) { // until it is changed
		problem, err = unfilled{reasonNotFilled, err.Error()}, nil
	}
	for range f.said.News(request.NamespacedName, problem) {
		f.Events.Eventf(seen, nil, corev1.EventTypeWarning, problem.reason, "Fill", "%s", eventtext.Fit(problem.message))
	}
	return reconcile.Result{}, client.IgnoreNotFound(err)
}

// unfilled is why a ConfigMap keeps the content that it has; zero if it does not.
type unfilled struct{ reason, message string }

// fill fills a ConfigMap with the lists of all CAs of its signer, and then of the CAs above, and
// sets the date of the oldest list. Programs refuse all certificates of a CA without a list, so
// that without one of them nothing must be filled.
func fill(marked *corev1.ConfigMap, all []*revocation.List, now time.Time) unfilled {
	signer := marked.Annotations[SignerAnnotation]
	if signer == "" {
		return unfilled{reasonNotFilled, "The annotation " + SignerAnnotation + " is missing: set it to the name of the signer whose revocation lists to fill in."}
	}
	lists, missing := listsOf(signer, all, now)
	switch {
	case len(missing) > 0:
		return unfilled{reasonNoList, "Not filled, because programs refuse the certificates of CAs without a list: there is none of " + strings.Join(missing, "; ") + "."}
	case len(lists) == 0:
		return unfilled{reasonNoList, "There is no valid revocation list of the signer " + signer + ": correct the annotation " + SignerAnnotation + ", or look at the CA of the signer."}
	}
	var ders [][]byte
	oldest := lists[0].Served.ThisUpdate
	for _, list := range lists {
		ders = append(ders, list.DER)
		if list.Served.ThisUpdate.Before(oldest) {
			oldest = list.Served.ThisUpdate
		}
	}
	if marked.Data == nil {
		marked.Data = map[string]string{}
	}
	marked.Data[FileKey] = string(revocation.EncodeLists(ders...))
	metav1.SetMetaDataAnnotation(&marked.ObjectMeta, DateAnnotation, oldest.UTC().Format(time.RFC3339))
	if worker.SizeOfConfigMap(marked) > worker.MostConfigMap {
		return unfilled{reasonTooLarge, fmt.Sprintf("The ConfigMap would have more than %d bytes, so that it keeps the lists that it has. Replace the CA, or fetch the lists by HTTP.", worker.MostConfigMap)}
	}
	return unfilled{}
}

// listsOf returns the valid lists of a signer's CAs, the newest CA first, and then those of the
// CAs above. missing are the subjects of CAs that have none. It skips the ended list of a former
// CA: that must not block the other lists.
func listsOf(signer string, all []*revocation.List, now time.Time) (lists []*revocation.List, missing []string) {
	var known []revocation.Published
	byID := map[string]*revocation.List{}
	for _, list := range all {
		if list.Last == nil {
			continue
		}
		if chain, err := list.Last.Certificates(); err == nil {
			of := &inventoryv1alpha1.RevocationList{ObjectMeta: metav1.ObjectMeta{Name: list.ID}, SignerNames: list.Last.Signers}
			known, byID[list.ID] = append(known, revocation.Published{RevocationList: of, Chain: chain}), list
		}
	}
	found := revocation.OfChains(known, signer, nil, now)
	for _, published := range slices.Concat(found.Own, found.Above) {
		switch list := byID[published.Name]; {
		case list.DER == nil:
			missing = append(missing, published.Chain[0].Subject.String())
		case list.Usable(now):
			lists = append(lists, list)
		}
	}
	return lists, append(missing, found.Missing...)
}
