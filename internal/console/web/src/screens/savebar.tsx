import { useState } from 'preact/hooks'

interface Props {
  broken: boolean // the document has errors
  changed: boolean
  anyway: boolean // it was warned of
  compare: () => void
  preview?: () => void // only operators can
  save?: (message: string) => Promise<boolean> // whether it was saved; missing if the document is read-only
}

// SaveBar is the actions on the document as typed.
export function SaveBar({ broken, changed, anyway, compare, preview, save }: Props) {
  const [message, setMessage] = useState('')
  const submit = async () => {
    if (await save?.(message || 'Edited in the console')) setMessage('')
  }
  return (
    <div class="row">
      {preview && (
        <button type="button" onClick={preview} disabled={broken}>
          Preview on recent requests
        </button>
      )}
      <button type="button" onClick={compare} disabled={broken || !changed}>
        Show the changes
      </button>
      {save && (
        <>
          <label class="grow">
            Message{' '}
            <input
              class="wide"
              maxLength={500}
              placeholder="what this change is for"
              value={message}
              onInput={(e) => setMessage(e.currentTarget.value)}
            />
          </label>
          <button
            type="button"
            class={anyway ? 'danger' : 'primary'}
            disabled={broken || !changed}
            onClick={() => void submit()}
          >
            {anyway ? 'Save anyway' : 'Save'}
          </button>
        </>
      )}
    </div>
  )
}
