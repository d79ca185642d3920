package podsync

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"github.com/certplane/certplane/internal/agent/records"
	"github.com/certplane/certplane/internal/agent/volume"
)

// sweep finds the remains of pods without a manifest, from earlier runs and
// from times when the server was away.
func (k *Keeper) sweep(ctx context.Context) {
	keys, err := k.leftovers(ctx)
	if err != nil && ctx.Err() == nil {
		klog.FromContext(ctx).V(2).Info("Could not look for pods without a manifest", "err", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.whole { // not all manifests are known
		return
	}
	for _, key := range keys {
		if _, wanted := k.wanted[key]; !wanted {
			k.leave(key)
		}
	}
}

// leftovers returns all pods with remaining records or objects.
func (k *Keeper) leftovers(ctx context.Context) ([]string, error) {
	var keys []string
	ids, errRecords := k.Records.List()
	for _, id := range ids {
		keys = append(keys, id.Namespace+"/"+id.Pod)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	registered, errAPI := k.pods.All(ctx)
	for _, pod := range registered {
		keys = append(keys, pod.Namespace+"/"+k.manifestOf(pod.Name))
	}
	return keys, errors.Join(errRecords, errAPI)
}

// remove removes everything of a pod: its files first, because the user who
// removed the manifest may be waiting for that, and its Pod when the server can
// be reached.
func (k *Keeper) remove(ctx context.Context, key string) error {
	namespace, name, _ := strings.Cut(key, "/")
	if err := k.removeVolumes(namespace, name, nil); err != nil {
		return err
	}
	k.Board.Remove(namespace, name)
	if err := k.unregister(ctx, namespace, name); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("A manifest was removed; removed its files and its pod", "pod", key)
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, leaving := k.leaving[key]; !leaving { // the manifest has come back meanwhile
		k.queue.Add(key)
		return nil
	}
	delete(k.wanted, key)
	delete(k.leaving, key)
	return nil
}

func (k *Keeper) unregister(ctx context.Context, namespace, name string) error {
	registered, err := k.pods.All(ctx)
	if err != nil {
		return err
	}
	for _, pod := range registered {
		if pod.Namespace == namespace && pod.Name == k.pods.Name(name) {
			return k.pods.Remove(ctx, pod)
		}
	}
	return nil
}

// removeVolumes removes the volumes of a pod except those in stay. The agent's records list
// the volumes that belong to the agent.
func (k *Keeper) removeVolumes(namespace, name string, stay map[string]bool) error {
	ids, err := k.Records.List()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if id.Namespace != namespace || id.Pod != name || stay[id.Volume] {
			continue
		}
		if err := k.removeVolume(id); err != nil {
			return err
		}
	}
	return nil
}

// removeVolume removes a volume and its record. A folder elsewhere is not the agent's, and
// its files stay: a program may still use them. An unreadable record does not describe such
// a folder.
func (k *Keeper) removeVolume(id records.ID) error {
	if known, err := k.Records.Load(id); err == nil && known.Dir != "" {
		return k.Records.Remove(id)
	}
	if err := volume.Remove(k.ownDir(id)); err != nil {
		return fmt.Errorf("removing the files of pod %s: %w", describe(id), err)
	}
	// Folders that are now empty are no longer in use; others stay.
	pod := filepath.Dir(k.ownDir(id))
	_ = os.Remove(pod)
	_ = os.Remove(filepath.Dir(pod))
	return k.Records.Remove(id)
}
