package vault_test

import (
	"io"
	"testing"

	"lockstep/blob"
	"lockstep/vault"
)

// TestSharedLate: a content that another process has written late, when chunks that it uses were removed, is
// not taken for whole, and is whole once it is put again.
func TestSharedLate(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), new(blob.Mem)
	first := random(rng(70), 200_000)
	second := edited(rng(71), first, 2, 20)
	v := vault.New(store, vault.Options{})
	put(t, v, first)
	late := put(t, v, second, digestOf(first))
	name := late.String()[:2] + "/" + late.String()
	r, err := store.Open(ctx, name)
	must(t, err)
	written, err := io.ReadAll(r)
	must(t, err)
	must(t, r.Close())
	sweep(t, v)
	sweep(t, v)
	w, err := store.Create(ctx, name)
	must(t, err)
	_, err = w.Write(written)
	must(t, err)
	must(t, store.Commit(ctx, w))
	for _, shared := range []bool{false, true} {
		v := vault.New(store, vault.Options{Shared: shared})
		_, has, err := v.Has(ctx, late)
		must(t, err)
		if has == shared {
			t.Errorf("shared=%t: the vault has the content: %t", shared, has)
		}
	}
	v = vault.New(store, vault.Options{Shared: true})
	put(t, v, second)
	wantContent(t, v, second)
}
