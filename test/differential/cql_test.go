package differential

import (
	"testing"

	"redoubt/internal/testserver/oncql"
)

// TestModelOnCQL compares Redoubt on a Cassandra node with the model: with one command at a
// time, with bursts, of which many commands become one change, and inside MULTI.
func TestModelOnCQL(t *testing.T) {
	t.Parallel()
	single, bursts := redoubtTarget(t, oncql.Options(t), false, 1), redoubtTarget(t, oncql.Options(t), false, 50)
	multi := redoubtTarget(t, oncql.Options(t), false, 20)
	multi.multi = true
	each(t, 10, false, []target{modelTarget{}, single, bursts})
	each(t, 5, false, []target{modelTarget{}, multi})
}
