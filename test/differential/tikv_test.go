package differential

import (
	"testing"

	"redoubt/internal/testserver/ontikv"
	"redoubt/internal/testtikv"
)

func TestMain(m *testing.M) { testtikv.Main(m) }

// TestModelOnTiKV compares Redoubt on a TiKV cluster with the model: with one command
// at a time, with bursts, of which many commands become one transaction, and inside
// MULTI.
func TestModelOnTiKV(t *testing.T) {
	t.Parallel()
	single, bursts := redoubtTarget(t, ontikv.Options(t), false, 1), redoubtTarget(t, ontikv.Options(t), false, 50)
	multi := redoubtTarget(t, ontikv.Options(t), false, 20)
	multi.multi = true
	each(t, 40, false, []target{modelTarget{}, single, bursts})
	each(t, 20, false, []target{modelTarget{}, multi})
}
