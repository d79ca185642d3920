package podsync

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/agent/manifests"
	"github.com/certplane/certplane/internal/agent/pods"
	"github.com/certplane/certplane/internal/agent/projection"
	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/status"
	"github.com/certplane/certplane/internal/agent/volume"
	"github.com/certplane/certplane/internal/api/agenthost"
)

// keep updates all volumes of a pod. A volume that fails does not stop the others.
func (k *Keeper) keep(ctx context.Context, manifest manifests.Pod) (time.Time, error) {
	told := status.Pod{Namespace: manifest.Namespace, Name: manifest.Name, File: manifest.File}
	pod, err := k.register(ctx, manifest)
	if err != nil {
		told.Error, told.Waiting = explain(err)
	}
	sync := &podSync{k: k, manifest: manifest, pod: pod, retry: k.takeRetry(manifest.Key())}
	sync.wakeBy(k.Clock.Now().Add(resync + k.Jitter(resync/5)))
	errs := []error{err}
	stay := map[string]bool{}
	for i := range manifest.Spec.Volumes {
		if v := &manifest.Spec.Volumes[i]; v.Projected != nil {
			stay[v.Name] = true
			seen, err := sync.volume(ctx, v)
			told.Volumes = append(told.Volumes, seen)
			errs = append(errs, err)
		}
	}
	errs = append(errs, k.removeVolumes(manifest.Namespace, manifest.Name, stay), k.report(ctx, pod, told))
	k.Board.Put(told)
	return sync.wake, errors.Join(errs...)
}

func (k *Keeper) register(ctx context.Context, manifest manifests.Pod) (*corev1.Pod, error) {
	node, err := k.Node.Current(ctx)
	if err != nil {
		return nil, err
	}
	pod, err := k.pods.Register(ctx, manifest, node)
	if err != nil {
		k.Node.Forget() // the Node may have been replaced
	}
	return pod, err
}

func (k *Keeper) report(ctx context.Context, pod *corev1.Pod, told status.Pod) error {
	if pod == nil {
		return nil
	}
	return k.pods.Report(ctx, pod, pods.State{Missing: told.Missing(), Certificates: certificatesOf(told), Lists: listsOf(told)}, metav1.NewTime(k.Clock.Now()))
}

// certificatesOf returns the certificates in the pod's status in the API.
func certificatesOf(told status.Pod) []agenthost.Certificate {
	var all []agenthost.Certificate
	for _, v := range told.Volumes {
		for _, s := range v.Sources {
			if s.Kind == certificateKind {
				all = append(all, agenthost.Certificate{Volume: v.Name, Signer: s.Name, NotAfter: s.NotAfter, Error: s.Error})
			}
		}
	}
	return all
}

// podSync is one sync of a pod.
type podSync struct {
	k        *Keeper
	manifest manifests.Pod
	// pod is nil if the server is away, or does not accept it.
	pod *corev1.Pod
	// retry skips the back-off after refusals.
	retry bool
	wake  time.Time
}

func (v *podSync) wakeBy(t time.Time) {
	if !t.IsZero() && (v.wake.IsZero() || t.Before(v.wake)) {
		v.wake = t
	}
}

// volumeState is the record of a volume during a podSync.
type volumeState struct {
	records.Volume
	id    records.ID
	store *records.Store
	saved records.Volume
}

func (v *podSync) open(name string) (*volumeState, error) {
	id := records.ID{Namespace: v.manifest.Namespace, Pod: v.manifest.Name, Volume: name}
	loaded, err := v.k.Records.Load(id)
	return &volumeState{Volume: loaded, id: id, store: v.k.Records, saved: clone(loaded)}, err
}

// save writes the record to disk if it has changed.
func (s *volumeState) save() error {
	if reflect.DeepEqual(s.Volume, s.saved) {
		return nil
	}
	if err := s.store.Save(s.id, s.Volume); err != nil {
		return err
	}
	s.saved = clone(s.Volume)
	return nil
}

func clone(v records.Volume) records.Volume {
	v.Certificates, v.Tokens, v.Done = maps.Clone(v.Certificates), maps.Clone(v.Tokens), maps.Clone(v.Done)
	return v
}

// volume updates one volume and returns its status.
func (v *podSync) volume(ctx context.Context, spec *corev1.Volume) (status.Volume, error) {
	s, err := v.open(spec.Name)
	if err != nil { // start with an empty record: everything in it can be requested again
		klog.FromContext(ctx).Error(err, "Cannot read the record of a volume; starting with an empty one", "pod", v.manifest.Key(), "volume", spec.Name)
	}
	s.Dir = v.manifest.Dirs[spec.Name]
	told := status.Volume{Name: spec.Name, Dir: v.k.dir(s)}
	var parts []projection.Part
	var errs []error
	failed := false
	for i := range spec.Projected.Sources {
		got := v.source(ctx, s, &spec.Projected.Sources[i])
		v.wakeBy(got.wake)
		parts = append(parts, got.parts...)
		failed = failed || got.missing
		if got.err != nil && got.wake.IsZero() && !errors.Is(got.err, errUnregistered) { // the source has no time of its own for the next attempt
			errs = append(errs, got.err)
		}
		told.Sources = append(told.Sources, got.told)
	}
	for _, want := range v.manifest.Lists[spec.Name] {
		got := v.revocationLists(ctx, s, spec.Projected, want, told.Dir)
		parts = append(parts, got.parts...)
		failed = failed || got.missing
		if got.err != nil && !errors.Is(got.err, errUnregistered) {
			errs = append(errs, got.err)
		}
		told.Sources = append(told.Sources, got.told)
	}
	files, err := v.files(spec.Projected, parts, told.Dir, failed)
	if err == nil {
		markReady(spec.Projected, told.Sources, files)
	}
	if err == nil && (len(files) > 0 || s.Notified != "") { // otherwise no source has brought a file yet
		content := v.digest(s, files)
		var change volume.Change
		change, err = v.write(ctx, s, told.Dir, files)
		if s.Notified == content && change >= volume.Restored { // somebody has deleted or changed them
			s.Notified = restoring
		}
		// As long as files are missing, no program can have started with others.
		complete := !slices.ContainsFunc(told.Sources, func(s status.Source) bool { return !s.Ready })
		if err == nil && (complete || s.Notified != "") {
			told.Actions = v.act(ctx, s, told.Dir, content)
		}
	}
	if err = errors.Join(err, s.save()); err != nil {
		told.Error = err.Error()
	}
	return told, errors.Join(append(errs, err)...)
}

// files returns the files of all parts. If a source has failed, its existing
// files stay as they are: the last good ones.
func (v *podSync) files(spec *corev1.ProjectedVolumeSource, parts []projection.Part, dir string, failed bool) (volume.Files, error) {
	files, err := projection.Files(v.manifest.Pod, spec, parts)
	if err != nil || !failed {
		return files, err
	}
	present, err := volume.Load(dir)
	if err != nil {
		return nil, err
	}
	for name, file := range present {
		if _, replaced := files[name]; !replaced {
			files[name] = file
		}
	}
	return files, nil
}

// markReady marks as ready the sources that failed now, but whose files exist.
func markReady(spec *corev1.ProjectedVolumeSource, told []status.Source, files volume.Files) {
	for i := range spec.Sources {
		paths := pathsOf(&spec.Sources[i])
		isMissing := func(path string) bool { _, there := files[path]; return !there }
		if !told[i].Ready && len(paths) > 0 {
			told[i].Ready = !slices.ContainsFunc(paths, isMissing)
		}
		if len(told[i].Files) == 0 { // the source has failed, and its files stay
			told[i].Files = slices.DeleteFunc(paths, isMissing)
		}
	}
}

// write writes the files to the folder, and returns what was not as it should be.
func (v *podSync) write(ctx context.Context, s *volumeState, dir string, files volume.Files) (volume.Change, error) {
	if s.Dir != "" {
		if err := checkFolder(dir); err != nil {
			return volume.None, err
		}
	}
	change, err := volume.Write(dir, files, v.k.Clock.Now())
	if errors.Is(err, syscall.EROFS) {
		err = fmt.Errorf("%w (if systemd prevents the agent from writing there, add the folder to ReadWritePaths in its unit)", err)
	}
	v.k.Metrics.wrote(change, err)
	if err == nil && change == volume.Replaced {
		klog.FromContext(ctx).Info("Wrote the files of a volume", "pod", v.manifest.Key(), "volume", s.id.Volume, "dir", dir)
	}
	return change, err
}
